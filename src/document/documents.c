#include "document/documents.h"

#include <errno.h>
#include <fcntl.h>
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
#include "document/reply.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/program.h"
#include "proc/user.h"

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
	pthread_mutex_t lock;
	struct program *worker; /* the current one; NULL: none */
	int control;            /* its */
	bool ready;             /* its libraries are loaded */
	uint64_t generation;    /* of worker */
	size_t running;         /* documents */
	struct waiter *waiters;
	bool ended;
} documents = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the process ---- */

/* With the lock. Whoever waits for it sees the end of their stream. */
static void give_up(void)
{
	if (!documents.worker)
		return;
	program_kill(documents.worker);
	program_unref(TAKE(documents.worker));
	close(documents.control);
}

static void worker_ended(void *arg, struct program *program, const struct program_status *how)
{
	(void)arg;
	(void)how;
	pthread_mutex_lock(&documents.lock);
	if (documents.worker == program)
		give_up();
	pthread_mutex_unlock(&documents.lock);
}

static struct program *start_worker(struct server *server, int control, struct err *err)
{
	struct arena arena = { 0 };
	const struct user *user = user_sandbox(server->config->user, err);
	const char *python = arena_printf(&arena, "%s/.venv/bin/python", server->home);
	const char *script = arena_printf(&arena, "%s/share/documents/worker.py", server->home);
	const char *idle =
		arena_printf(&arena, "%.3f", (double)server->config->document_idle_ms / 1000);
	/* A thread of a library would not survive the forks. */
	const struct pair extra[] = { { "OPENBLAS_NUM_THREADS", "1" }, { "OMP_NUM_THREADS", "1" } };
	char *argv[] = { (char *)python, (char *)"-I", (char *)"-B",
			 (char *)script, (char *)idle, NULL };
	struct program *worker = NULL;
	if (user && (access(python, X_OK) < 0 || access(script, R_OK) < 0)) {
		err_set(err, ERR_UNAVAILABLE,
			"documents need Python with markitdown: '%s' or '%s' is missing (make deps)",
			python, script);
	} else if (user) {
		struct program_spec spec = {
			.spawn = { .path = python,
				   .argv = argv,
				   .cwd = "/",
				   .fds = { control, -1, -1 } },
			.group = true,
			.ended = worker_ended,
		};
		spawn_sandboxed(&spec.spawn, &arena, user, server->home, NULL,
				&(struct list){ COUNT(extra), extra });
		worker = program_start(&spec, err);
	}
	arena_done(&arena);
	return worker;
}

/* With the lock. */
static int start(struct server *server, struct err *err)
{
	int pair[2];
	if (documents.ended)
		return wake_err(WAKE_STOPPING, err);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_LIMIT, "no sockets for the document worker");
	auto_close int ours = pair[0];
	auto_close int theirs = pair[1];
	documents.worker = start_worker(server, theirs, err);
	if (!documents.worker)
		return -1;
	documents.control = TAKE_FD(ours);
	documents.ready = false;
	documents.generation++;
	return 0;
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

/* Hands a job to the worker there is, or to a new one: the moment by which it must have begun. */
static int submit(struct server *server, const char *job, size_t len, const int fds[2],
		  uint64_t *ret_generation, int64_t *ret_until, struct err *err)
{
	int result = 0;
	char ready;
	pthread_mutex_lock(&documents.lock);
	if (documents.worker && send_job(documents.control, job, len, fds) < 0)
		give_up(); /* it has just ended, or does not read */
	if (!documents.worker) {
		result = start(server, err);
		if (result == 0 && send_job(documents.control, job, len, fds) < 0)
			result = err_set(err, ERR_UNAVAILABLE, "the document worker is lost");
	}
	if (result == 0) {
		if (recv(documents.control, &ready, 1, MSG_DONTWAIT) == 1)
			documents.ready = true;
		*ret_generation = documents.generation;
		*ret_until = clock_ms() + (documents.ready ? FORK_MS : LOAD_MS);
	}
	pthread_mutex_unlock(&documents.lock);
	return result;
}

static void give_up_on(uint64_t generation)
{
	pthread_mutex_lock(&documents.lock);
	if (documents.generation == generation)
		give_up();
	pthread_mutex_unlock(&documents.lock);
}

void document_end(void)
{
	pthread_mutex_lock(&documents.lock);
	documents.ended = true;
	give_up();
	pthread_mutex_unlock(&documents.lock);
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
static int ended_early(uint64_t generation, struct err *err)
{
	pthread_mutex_lock(&documents.lock);
	struct program *worker = documents.generation == generation && documents.worker
					 ? program_ref(documents.worker)
					 : NULL;
	pthread_mutex_unlock(&documents.lock);
	/* The fork dies a moment before the worker is seen to be dead. */
	const struct wait moment = { clock_ms() + 100, -1, -1 };
	bool alive = worker && program_wait(worker, &moment, NULL) == WAKE_TIMEOUT;
	program_unref(worker);
	if (!alive)
		return err_set(err, ERR_UNAVAILABLE,
			       "the document worker was ended while it read this; try again");
	return err_set(err, ERR_INVALID,
		       "the document broke its reader: it is damaged, or needs too much memory");
}

static int read_reply(const struct stream_in *in, uint64_t generation, struct buf *ret,
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
		result = ended_early(generation, err);
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

/* Has the job begun, -1 for no longer waiting, or 1: the worker was dead or hung, and is given up. */
static int begin(struct call *call, const char *job, size_t len, int document, int *ret_stream,
		 uint64_t *ret_generation, struct err *err)
{
	int pair[2];
	char started;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, ERR_LIMIT, "no sockets to read a document with");
	auto_close int ours = pair[0];
	auto_close int theirs = pair[1];
	struct stream_in in = { ours, call_until(call, 0) };
	if (submit(call->server, job, len, (int[2]){ theirs, document }, ret_generation,
		   &in.wait.until_ms, err) < 0)
		return -1;
	close(TAKE_FD(theirs));
	ssize_t n = some(&in, &started, 1, err);
	if (n < 0 && err->code != ERR_SLOW)
		return -1;
	if (n != 1) {
		give_up_on(*ret_generation);
		return 1;
	}
	*ret_stream = TAKE_FD(ours);
	return 0;
}

static int run(struct call *call, const char *job, size_t len, int document, struct buf *ret,
	       json_t **ret_metadata, struct err *err)
{
	auto_close int stream = -1;
	uint64_t generation = 0;
	int begun = 1;
	if (turn_take(call, err) < 0)
		return -1;
	for (int i = 0; i < 2 && begun > 0; i++)
		begun = begin(call, job, len, document, &stream, &generation, err);
	int result = begun;
	if (begun > 0)
		result = err_set(err, ERR_UNAVAILABLE, "the document worker does not start");
	if (begun == 0) {
		const struct stream_in in = {
			stream, call_until(call, clock_ms() + call->server->config->document_ms)
		};
		result = read_reply(&in, generation, ret, ret_metadata, err);
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
