/* What the server of a box wrote. */
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "host/host.h"
#include "host/sandboxes.h"
#include "net/call.h"
#include "net/route.h"

enum { LOG_TAIL_MAX = 1 << 20 };

struct logs {
	const char *id;
	int64_t bytes;
	bool follow;
};
static const struct field logs_fields[] = {
	STR(logs, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
	INT(logs, bytes, QUERY | MIN | MAX, "How much of its end.", .def = "65536", .min = 1,
	    .max = LOG_TAIL_MAX),
	BOOL(logs, follow, QUERY, "Go on with what it writes next.", .def = "false"),
};
static const struct schema logs_schema = SCHEMA(logs, "SandboxLogsRequest", logs_fields);

/* Sends what is behind *at. */
static int send_log(struct call *call, int fd, off_t *at, struct err *err)
{
	char piece[16384];
	ssize_t n;
	while ((n = pread(fd, piece, sizeof piece, *at)) > 0) {
		if (call->sink->write(call->sink, piece, (size_t)n, err) < 0)
			return -1;
		*at += n;
	}
	return 0;
}

/* The file is another once the keeper has put a large one aside. */
static bool is_same(int fd, const char *path)
{
	struct stat one, two;
	return fstat(fd, &one) == 0 && (stat(path, &two) < 0 || one.st_ino == two.st_ino);
}

static int follow_log(struct call *call, struct box *box, const char *path, int64_t bytes,
		      struct err *err)
{
	enum { LOOK_MS = 1000 };
	struct answer answer = { 200, "text/plain; charset=utf-8", -1, .header_count = 0 };
	int result = call->sink->begin(call->sink, &answer, err);
	while (result == 0) {
		char ignored[4096];
		auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
		auto_close int news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		off_t at = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
		at = at > bytes ? at - (off_t)bytes : 0;
		bytes = INT64_MAX; /* of the files that follow, all */
		(void)inotify_add_watch(news, path, IN_MODIFY | IN_MOVE_SELF);
		do {
			bool last = boxes_state(&host_of(call->server)->boxes, box) == BOX_DELETED;
			result = fd < 0 ? 0 : send_log(call, fd, &at, err);
			if (result < 0 || last)
				return result;
			enum wake wake = call_wait(call, news, clock_ms() + LOOK_MS);
			if (wake == WAKE_LEFT || wake == WAKE_STOPPING)
				return 0;
			(void)!read(news, ignored, sizeof ignored);
		} while (fd >= 0 && is_same(fd, path));
		if (fd >= 0)
			result = send_log(call, fd, &at, err);
	}
	return result;
}

static int logs(struct call *call, const void *in, struct err *err)
{
	const struct logs *request = in;
	struct box *box = sandbox_find(call, request->id, err);
	if (!box)
		return -1;
	keeper_drain(host_of(call->server), box);
	auto_free char *path = host_path(host_of(call->server), "log", box->id, ".log");
	if (request->follow)
		return follow_log(call, box, path, request->bytes, err);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	off_t from = size > request->bytes ? size - request->bytes : 0;
	char *text = arena_alloc(call->arena, (size_t)(size - from) + 1);
	ssize_t n = fd < 0 ? 0 : pread(fd, text, (size_t)(size - from), from);
	return call_text(call, "text/plain; charset=utf-8", text, n > 0 ? (size_t)n : 0, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/sandboxes/{id}/logs", logs, &logs_schema, NULL, "What its server wrote",
	  .flags = BARE, .type = "text/plain" },
};
const struct route_group sandboxes_logs_group = {
	"sandboxes", "Sandboxes of this host: for those who have its own token.", routes,
	COUNT(routes)
};
