/* aio exec: a command in a box, with our standard descriptors, or on our terminal. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "api/bash_ws.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/endpoint.h"
#include "cli/exec_stream.h"
#include "cli/remote.h"
#include "net/ws.h"
#include "net/ws_client.h"

enum {
	PIECE = 65536,
	WINDOW = 1 << 20, /* of input that the box has not taken yet */
	WORD_MAX = 4096,
};

struct exec_flags {
	bool interactive, tty;
};
static const struct field exec_fields[] = {
	BOOL(exec_flags, interactive, OPTIONAL,
	     "Pass standard input on as it is, even on a terminal, unless with -t. Also -i."),
	BOOL(exec_flags, tty, OPTIONAL,
	     "On a terminal, which standard input must be. Also -t, -it. When absent: if input and output are one."),
};
const struct schema exec_schema = SCHEMA(exec_flags, "ExecFlags", exec_fields);

/* The words as one line of shell; one word alone is a line already. */
static void command_line(int argc, char **argv, struct buf *to)
{
	for (int i = 0; i < argc; i++) {
		if (i)
			buf_str(to, " ");
		if (argc == 1) {
			buf_str(to, argv[i]);
			continue;
		}
		buf_str(to, "'");
		for (const char *c = argv[i]; *c; c++) {
			if (*c == '\'')
				buf_str(to, "'\\''");
			else
				buf_add(to, c, 1);
		}
		buf_str(to, "'");
	}
}

struct exec_run {
	struct ws *ws;
	const struct exec_io *io;
	bool terminal, ended;
	atomic_bool interrupted;
	char *message; /* why it was killed, or could not be started */
	int status, signals, done, credit;
	_Atomic int64_t waiting; /* bytes of input on their way */
};

static int send_word(struct ws *ws, const char *type, const void *value, struct err *err)
{
	struct jw jw;
	jw_init(&jw, WORD_MAX);
	(void)desc_encode_variant(&exec_takes, type, value, &jw);
	int result = ws_send(ws, WS_TEXT, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

static int send_start(struct ws *ws, const struct exec_start *start, struct err *err)
{
	struct jw jw;
	const char *command = start->command ? start->command : "";
	if (!utf8_valid(command, strlen(command)))
		return err_set(err, ERR_INVALID, "the command is not UTF-8");
	jw_init(&jw, SIZE_MAX / 16);
	desc_encode(&exec_start_schema, start, &jw);
	int result = ws_send(ws, WS_TEXT, jw.out.data, jw.out.len, err);
	jw_done(&jw);
	return result;
}

static struct exec_size terminal_size(void)
{
	struct winsize size = { 0 };
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
	return known ? (struct exec_size){ size.ws_col, size.ws_row }
		     : (struct exec_size){ INT_ABSENT, INT_ABSENT };
}

/* ---- to the box: a thread of its own, for both directions may be busy at once ---- */

static int feed(struct exec_run *r, char *data, struct err *err)
{
	ssize_t n = r->io->in >= 0 ? read(r->io->in, data, PIECE) : 0;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n > 0)
		atomic_fetch_add(&r->waiting, n);
	if (n > 0 && r->io->moved)
		r->io->moved(r->io->arg, (size_t)n);
	if (n > 0)
		return ws_send(r->ws, WS_BINARY, data, (size_t)n, err);
	(void)send_word(r->ws, "eof", NULL, err);
	return -1;
}

/* The second time a signal is one that cannot be ignored. */
static int tell_signal(struct exec_run *r, int *asked, struct err *err)
{
	struct signalfd_siginfo info;
	if (read(r->signals, &info, sizeof info) != sizeof info)
		return 0;
	if (r->io->ends_here) {
		atomic_store(&r->interrupted, true);
		(void)shutdown(ws_fd(r->ws), SHUT_RDWR);
		return -1;
	}
	struct exec_size size = terminal_size();
	if (info.ssi_signo == SIGWINCH)
		return send_word(r->ws, "resize", &size, err);
	const char *name = (*asked)++                  ? "SIGKILL"
			   : info.ssi_signo == SIGINT  ? "SIGINT"
			   : info.ssi_signo == SIGHUP  ? "SIGHUP"
			   : info.ssi_signo == SIGQUIT ? "SIGQUIT"
						       : "SIGTERM";
	return send_word(r->ws, "signal", &(struct exec_signal){ name }, err);
}

static void *feed_all(void *arg)
{
	struct exec_run *r = arg;
	struct err err;
	int asked = 0, input = r->io->in;
	eventfd_t ignored;
	auto_free char *data = xmalloc(PIECE);
	struct pollfd wait[] = { { r->done, POLLIN, 0 },
				 { r->signals, POLLIN, 0 },
				 { r->credit, POLLIN, 0 },
				 { input, POLLIN, 0 } };
	if (input < 0)
		(void)feed(r, data, &err);
	while (poll(wait, COUNT(wait), -1) >= 0 || errno == EINTR) {
		if (wait[0].revents)
			break;
		if (wait[1].revents && tell_signal(r, &asked, &err) < 0)
			break;
		if (wait[2].revents)
			(void)eventfd_read(r->credit, &ignored);
		if (wait[3].revents && feed(r, data, &err) < 0)
			input = -1;
		wait[3].fd = atomic_load(&r->waiting) <= WINDOW - PIECE ? input : -1;
	}
	return NULL;
}

/* ---- from the box ---- */

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		struct pollfd room = { fd, POLLOUT, 0 };
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EAGAIN)
			(void)poll(&room, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -1;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void obey(struct exec_run *r, const char *type, const void *word)
{
	const struct exec_taken *taken = word;
	const struct exec_end *end = word;
	if (!strcmp(type, "taken")) {
		atomic_fetch_sub(&r->waiting, taken->bytes == INT_ABSENT ? 0 : taken->bytes);
		(void)eventfd_write(r->credit, 1);
		return;
	}
	if (end->message && !r->message)
		r->message = xstrdup(end->message);
	if (!strcmp(type, "exit")) {
		r->status = end->exit_code == INT_ABSENT ? 0 : (int)end->exit_code;
		r->ended = true;
	}
}

static void take(struct exec_run *r, const struct ws_message *message)
{
	if (message->opcode == WS_BINARY && message->len) {
		bool error = message->data[0] == 2;
		int fd = error ? r->io->errors : r->io->out;
		if (error && fd < 0) {
			(void)buf_add(r->io->said, message->data + 1, message->len - 1);
			return;
		}
		if (!error && r->io->moved && r->io->in < 0)
			r->io->moved(r->io->arg, message->len - 1);
		if (write_all(fd, message->data + 1, message->len - 1) < 0) {
			r->status = 128 + SIGPIPE; /* nobody reads it: the command ends as we do */
			r->ended = true;
		}
		return;
	}
	struct arena arena = { 0 };
	struct tagged word = { 0 };
	if (message->len <= WORD_MAX &&
	    desc_message(&exec_sends, message->data, message->len, &arena, &word) == 0 && word.tag)
		obey(r, word.tag, word.value);
	arena_done(&arena);
}

static int receive(struct exec_run *r, struct err *err)
{
	struct ws_message message;
	int got = 1;
	while (!r->ended && (got = ws_recv(r->ws, &message, -1, err)) > 0)
		take(r, &message);
	if (r->ended)
		return 0;
	if (atomic_load(&r->interrupted))
		return err_set(err, ERR_GONE, "interrupted");
	const char *reason = r->message ? r->message : got == 0 ? ws_close_reason(r->ws) : NULL;
	if (reason && *reason)
		return err_set(err, ERR_GONE, "%s", reason);
	return err_set(err, ERR_GONE, "the box went away before the command ended");
}

/* ---- both ---- */

static void block_signals(struct exec_run *r)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t signals;
	sigemptyset(&signals);
	for (size_t i = 0; i < COUNT(ends); i++)
		sigaddset(&signals, ends[i]);
	if (r->terminal)
		sigaddset(&signals, SIGWINCH);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	r->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	r->done = eventfd(0, EFD_CLOEXEC);
	r->credit = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int converse(struct exec_run *r, struct err *err)
{
	pthread_t thread;
	struct termios before, raw;
	block_signals(r);
	if (r->terminal) {
		tcgetattr(STDIN_FILENO, &before);
		raw = before;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	int result = thread_start_joinable(&thread, feed_all, r) ? err_set(err, EAGAIN, "no thread")
								 : 0;
	if (result == 0) {
		result = receive(r, err);
		(void)eventfd_write(r->done, 1);
		(void)shutdown(ws_fd(r->ws), SHUT_RDWR); /* it may be sending */
		pthread_join(thread, NULL);
	}
	if (r->terminal)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	own_close(&r->signals);
	own_close(&r->done);
	own_close(&r->credit);
	return result;
}

int exec_stream(const struct endpoint *at, const struct exec_start *start, const struct exec_io *io,
		struct err *err)
{
	struct exec_run r = { .terminal = start->tty, .io = io };
	auto_free char *url =
		xasprintf("ws%s%s/v1/bash/ws", at->origin + strlen("http"), at->prefix);
	if (strncmp(at->origin, "http", 4) != 0)
		return err_set(err, ERR_INVALID, "not an address of a sandbox: '%s'", at->origin);
	r.ws = ws_connect(url, at->headers, NULL, err);
	if (!r.ws)
		return -1;
	int result = send_start(r.ws, start, err);
	if (result == 0)
		result = converse(&r, err);
	ws_free(r.ws);
	if (result == 0 && r.message && io->said)
		buf_printf(io->said, "%s\n", r.message);
	else if (result == 0 && r.message)
		fprintf(stderr, "aio exec: %s\n", r.message);
	free(r.message);
	return result < 0 ? -1 : r.status;
}

int exec_in_box(const struct remote *remote, const json_t *flags, const char *id, int argc,
		char **argv, struct err *err)
{
	static const struct exec_io io = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO,
					   .ends_here = false };
	char *headers[3] = { NULL };
	bool tty = json_is_true(json_object_get(flags, "tty"));
	bool piped = !tty && json_is_true(json_object_get(flags, "interactive"));
	bool terminal = !piped && isatty(STDIN_FILENO) && (tty || isatty(STDOUT_FILENO));
	auto_buf struct buf line = BUF(1 << 20);
	if (argc && !strcmp(argv[0], "--")) {
		argc--;
		argv++;
	}
	if (tty && !terminal)
		return err_set(
			err, ERR_INVALID,
			"-t needs a terminal as standard input; leave it out to pass input on");
	command_line(argc, argv, &line);
	if (line.full)
		return err_set(err, ERR_TOO_LARGE, "the command is longer than 1 MiB");
	if (remote_box(remote, id, headers, err) < 0)
		return -1;
	const struct endpoint at = { .origin = (char *)remote->url,
				     .prefix = (char *)"",
				     .headers = { headers[0], headers[1] } };
	struct exec_size size = terminal ? terminal_size()
					 : (struct exec_size){ INT_ABSENT, INT_ABSENT };
	const struct exec_start start = { .command = argc ? line.data : NULL,
					  .tty = terminal,
					  .cols = size.cols,
					  .rows = size.rows,
					  .term = terminal ? getenv("TERM") : NULL };
	int result = exec_stream(&at, &start, &io, err);
	free(headers[0]);
	free(headers[1]);
	return result;
}
