#include "document/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "config/config.h"
#include "config/distribution.h"
#include "config/home.h"
#include "document/reply.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	AT_ONCE = 4,        /* documents; more wait for their turn */
	LOAD_MS = 30000,    /* for the worker to load its libraries */
	FORK_MS = 10000,    /* and then to take a job: beyond that it hangs */
	JOB_MAX = 65536,    /* bytes of a job's message */
	URI_MAX = 16384,    /* of one that is no data URI */
	MEMBERS_MAX = 2000, /* of an archive */
	READ_SIZE = 65536,
};
#define UNPACKED_MAX ((int64_t)256 << 20)

static struct {
	struct service *service; /* the worker */
	pthread_mutex_t lock;    /* of what follows */
	size_t running;          /* documents */
	struct waiter *waiters;
} documents = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the process ---- */

static const char *find_python(void *arg, struct arena *arena, struct err *err)
{
	const struct server *server = arg;
	const char *script = arena_printf(arena, "%s/share/documents/worker.py", server->home);
	char python[PATH_MAX], needs[256];
	if (home_python(server->home, python, sizeof python) && access(script, R_OK) == 0)
		return arena_strdup(arena, python);
	home_python_needs(server->home, needs, sizeof needs);
	if (!distribution_has_glibc())
		err_set(err, ERR_UNAVAILABLE,
			"documents are read by the product's Python packages, which need glibc, and the "
			"image of this box lacks it: use an image with glibc and the package python3, "
			"such as Debian's");
	else if (*needs)
		err_set(err, ERR_UNAVAILABLE,
			"documents are read by the product's Python packages, which need %s: add the "
			"package python3 to the image of this box",
			needs);
	else
		err_set(err, ERR_UNAVAILABLE,
			"documents need Python with markitdown, and '%s' or '%s' is not "
			"installed: make deps",
			python, script);
	return NULL;
}

static int prepare_worker(struct service_run *run, struct service_start *start, struct err *err)
{
	/* A thread of a library would not survive the forks. */
	static const struct pair extra[] = { { "OPENBLAS_NUM_THREADS", "1" },
					     { "OMP_NUM_THREADS", "1" } };
	const struct server *server = run->arg;
	const struct user *user = user_sandbox(server->config->user, err);
	struct spawn *spawn = &start->program.spawn;
	char **argv = arena_alloc(start->arena, 5 * sizeof *argv);
	int pair[2];
	if (!user)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_LIMIT, "no sockets for the document worker");
	memcpy(argv,
	       (char *[]){ (char *)spawn->path, (char *)"-I", (char *)"-B",
			   arena_printf(start->arena, "%s/share/documents/worker.py", server->home),
			   NULL },
	       5 * sizeof *argv);
	run->in = pair[0];
	spawn->fds[0] = pair[1];
	spawn->argv = argv;
	spawn->cwd = "/";
	start->program.group = true;
	start->ready = (struct ready){ .how = READY_LINE, .fd = run->in };
	spawn_sandboxed(spawn, start->arena, user, server->home, NULL,
			&(struct list){ COUNT(extra), extra });
	return 0;
}

void document_setup(struct server *server)
{
	static struct service_row row = { .name = "documents",
					  .title = "the document worker",
					  .find = find_python,
					  .prepare = prepare_worker,
					  .start_ms = LOAD_MS };
	row.idle_ms = config_idle(server->config, server->config->document_idle_ms);
	documents.service = service_add(&row, server);
}

static int send_job(int control, const char *job, size_t len, const int fds[2])
{
	int count = fds[1] < 0 ? 1 : 2;
	char space[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec part = { (void *)job, len };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = space,
				  .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int)) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
	memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
	return sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* ---- a job ---- */

/* Waits for a turn. The time that passes here is not the document's. */
static int turn_take(struct call *call, struct err *err)
{
	struct wait wait = call_until(call, clock_ms() + call->server->config->document_ms * 4);
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&documents.lock);
	while (documents.running >= AT_ONCE && wake == WAKE_READY)
		wake = wait_change(&wait, &documents.lock, &documents.waiters, NULL);
	documents.running += wake == WAKE_READY;
	pthread_mutex_unlock(&documents.lock);
	if (wake == WAKE_TIMEOUT)
		return err_set(err, ERR_LIMIT, "too many documents are waiting to be read");
	return wake_err(wake, err);
}

static void turn_give(void)
{
	pthread_mutex_lock(&documents.lock);
	documents.running--;
	waiter_wake(documents.waiters);
	pthread_mutex_unlock(&documents.lock);
}

/* A stream from the worker, and how long and for whom it is read. */
struct stream_in {
	int fd;
	struct wait wait;
};

/* Reads some: how much, 0 at the end of the stream, -1 with err when it is not worth waiting. */
static ssize_t some(const struct stream_in *in, void *to, size_t room, struct err *err)
{
	for (;;) {
		struct pollfd fd = { .fd = in->fd, .events = POLLIN };
		enum wake wake = wait_stream(&in->wait, &fd, 1);
		if (wake == WAKE_TIMEOUT)
			return err_set(err, ERR_SLOW, "reading the document took too long");
		if (wake != WAKE_READY)
			return wake_err(wake, err);
		ssize_t got = recv(in->fd, to, room, MSG_DONTWAIT);
		if (got >= 0 || errno == ECONNRESET)
			return got < 0 ? 0 : got;
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, errno, "the document worker");
	}
}

/* Appends exactly len bytes. 1 when the stream ends before. */
static int all(const struct stream_in *in, struct buf *to, size_t len, struct err *err)
{
	while (len) {
		size_t step = len < READ_SIZE ? len : READ_SIZE;
		char *room = buf_grow(to, step);
		if (!room)
			return err_set(err, ERR_TOO_LARGE, "the text is longer than %zu MiB",
				       to->cap >> 20);
		ssize_t n = some(in, room, step, err);
		if (n <= 0)
			return n < 0 ? -1 : 1;
		to->len += (size_t)n;
		to->data[to->len] = 0;
		len -= (size_t)n;
	}
	return 0;
}

/* The stream ended early. Either somebody killed the worker, or the document its fork. */
static int ended_early(const struct service_run *worker, struct err *err)
{
	/* The fork dies a moment before the worker is seen to be dead. */
	const struct wait moment = { clock_ms() + 100, -1, -1 };
	if (worker->ending || program_wait(worker->program, &moment, NULL) == WAKE_READY)
		return err_set(err, ERR_UNAVAILABLE,
			       "the document worker was ended while it read this; try again");
	return err_set(err, ERR_INVALID,
		       "the document broke its reader: it is damaged, or needs too much memory");
}

static int read_reply(const struct stream_in *in, const struct service_run *worker, struct buf *ret,
		      json_t **ret_metadata, struct err *err)
{
	auto_buf struct buf head = BUF(REPLY_HEAD + READ_SIZE);
	auto_buf struct buf facts = BUF(REPLY_FACTS_MAX + READ_SIZE);
	size_t facts_len, text_len, before = ret->len;
	json_t *metadata = NULL;
	int result = all(in, &head, REPLY_HEAD, err);
	if (result == 0)
		result = reply_head((const unsigned char *)head.data, DOCUMENT_TEXT_MAX, &facts_len,
				    &text_len, err);
	if (result == 0)
		result = all(in, &facts, facts_len, err);
	if (result == 0)
		result = all(in, ret, text_len, err);
	if (result > 0)
		result = ended_early(worker, err);
	else if (result == 0)
		result = reply_facts(facts.data, facts.len, &metadata, err);
	if (result < 0)
		ret->len = before;
	if (result == 0 && ret_metadata)
		*ret_metadata = metadata;
	else
		json_decref(metadata);
	return result;
}

/* Gives the job to the worker. The stream that it answers on; -1 with err. */
static int submit(struct call *call, struct service_run *worker, const char *job, size_t len,
		  int document, struct err *err)
{
	int pair[2];
	char started;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_LIMIT, "no sockets to read a document with");
	auto_close int ours = pair[0];
	auto_close int theirs = pair[1];
	const struct stream_in in = { ours, call_until(call, clock_ms() + FORK_MS) };
	ssize_t n = 0;
	if (send_job(worker->in, job, len, (int[2]){ theirs, document }) == 0) {
		close(TAKE_FD(theirs));
		n = some(&in, &started, 1, err);
	}
	if (n == 1)
		return TAKE_FD(ours);
	if (n < 0 && err->code != ERR_SLOW)
		return -1;
	service_lost(worker, "it does not take a job");
	return err_set(err, ERR_UNAVAILABLE, "the document worker does not start");
}

/* A worker that has begun the job: one that is dead, or hangs, is given up once. */
static struct service_run *begin(struct call *call, const char *job, size_t len, int document,
				 int *ret_stream, struct err *err)
{
	for (int i = 0; i < 2; i++) {
		const struct wait wait = call_until(call, clock_ms() + LOAD_MS);
		struct service_run *worker = service_use(documents.service, &wait, err);
		if (!worker)
			return NULL;
		*ret_stream = submit(call, worker, job, len, document, err);
		if (*ret_stream >= 0)
			return worker;
		bool lost = worker->ending;
		service_release(worker);
		if (!lost)
			return NULL;
	}
	return NULL;
}

static int run(struct call *call, const char *job, size_t len, int document, struct buf *ret,
	       json_t **ret_metadata, struct err *err)
{
	auto_close int stream = -1;
	int result = -1;
	if (turn_take(call, err) < 0)
		return -1;
	struct service_run *worker = begin(call, job, len, document, &stream, err);
	if (worker) {
		const struct stream_in in = {
			stream, call_until(call, clock_ms() + call->server->config->document_ms)
		};
		result = read_reply(&in, worker, ret, ret_metadata, err);
		service_release(worker);
	}
	turn_give();
	return result;
}

/* Runs the job with the limits that all have, and gives it back. */
static int perform(struct call *call, json_t *job, int document, struct buf *ret,
		   json_t **ret_metadata, struct err *err)
{
	const struct config *config = call->server->config;
	json_object_set_new(job, "memory", json_integer(config->document_memory));
	json_object_set_new(job, "seconds", json_real((double)config->document_ms / 1000));
	json_object_set_new(job, "input_max", json_integer(config->max_document));
	json_object_set_new(job, "text_max", json_integer(DOCUMENT_TEXT_MAX));
	auto_free char *text = json_dumps(job, JSON_COMPACT);
	json_decref(job);
	if (!text || strlen(text) > JOB_MAX)
		return err_set(err, ERR_TOO_LARGE, "the names in the request are too long");
	return run(call, text, strlen(text), document, ret, ret_metadata, err);
}

/* ---- what can be asked ---- */

bool document_viewable(const char *name)
{
	static const char *const kinds[] = { ".pdf", ".xlsx", ".xlsm", ".xls", ".pptx", ".docx" };
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; dot && i < COUNT(kinds); i++)
		if (!strcasecmp(dot, kinds[i]))
			return true;
	return false;
}

static void add_range(json_t *job, const char *name, const struct document_range *range)
{
	if (range->first || range->last)
		json_object_set_new(job, name, json_pack("[II]", range->first, range->last));
}

int document_view(const struct document_request *request, struct buf *ret, json_t **ret_metadata,
		  struct err *err)
{
	json_t *job = json_pack("{s:s}", "task", "view");
	const char *dot = strrchr(request->name, '.');
	json_object_set_new(job, "name", json_string(dot ? dot : ""));
	add_range(job, "page_range", &request->pages);
	add_range(job, "row_range", &request->rows);
	add_range(job, "slide_range", &request->slides);
	if (request->sheet)
		json_object_set_new(job, "sheet_name", json_string(request->sheet));
	return perform(request->call, job, request->fd, ret, ret_metadata, err);
}

/* A file without a name that holds a text too long for a message. */
static int as_file(const char *text, size_t len, struct err *err)
{
	auto_close int fd = memfd_create("document", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "memfd");
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, text + at, len - at, (off_t)at);
		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "memfd");
		at += n > 0 ? (size_t)n : 0;
	}
	return TAKE_FD(fd);
}

static bool has_scheme(const char *uri, size_t len, const char *scheme)
{
	size_t n = strlen(scheme);
	return len > n && !strncasecmp(uri, scheme, n);
}

int document_convert(struct call *call, const char *uri, size_t len, struct buf *ret,
		     struct err *err)
{
	bool data = has_scheme(uri, len, "data:");
	if (!data && !has_scheme(uri, len, "http://") && !has_scheme(uri, len, "https://") &&
	    !has_scheme(uri, len, "file:/"))
		return err_set(err, ERR_BAD_REQUEST,
			       "uri must begin with http://, https://, file:/// or data:");
	if (!data && (len > URI_MAX || memchr(uri, 0, len)))
		return err_set(err, ERR_BAD_REQUEST, "uri is longer than %d bytes, or has NUL",
			       URI_MAX);
	auto_close int fd = data ? as_file(uri, len, err) : -1;
	if (data && fd < 0)
		return -1;
	json_t *job = json_pack("{s:s}", "task", "convert");
	if (!data)
		json_object_set_new(job, "uri", json_stringn(uri, len));
	return perform(call, job, fd, ret, NULL, err);
}

int document_unpack(struct call *call, int zip_fd, const char *dir, struct err *err)
{
	auto_buf struct buf nothing = BUF(READ_SIZE);
	json_t *job = json_pack("{s:s, s:s, s:i, s:I}", "task", "unpack", "dir", dir, "members_max",
				MEMBERS_MAX, "unpacked_max", UNPACKED_MAX);
	if (!job)
		return err_set(err, ERR_BAD_REQUEST, "the directory's name is not UTF-8");
	return perform(call, job, zip_fd, &nothing, NULL, err);
}
