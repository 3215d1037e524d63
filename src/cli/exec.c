/* aio exec: a command in a box. On a terminal through the box's terminal, else as a stream of events. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "net/client.h"
#include "net/ws.h"
#include "net/ws_client.h"

enum { LINE_MAX_BYTES = 8 << 20 };

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

/* ---- without a terminal ---- */

/* What goes the other way, by a thread and a connection of its own: standard input, and signals. */
struct feeder {
	const struct remote *remote;
	const char *const *headers;
	char session[80], command[80];
	int signals, done;
	pthread_t thread;
	bool started;
	struct client client;
};

struct stream {
	struct buf line;
	char event[16];
	int status;
	bool ended;
	struct feeder feeder;
};

static int tell(struct feeder *feeder, const char *target, json_t *more)
{
	struct err err;
	json_t *body =
		json_pack("{ssss}", "session_id", feeder->session, "command_id", feeder->command);
	json_object_update_new(body, more);
	auto_free char *text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (!text)
		return -1;
	struct client_request request = {
		"POST", target, feeder->headers, NULL, text, strlen(text)
	};
	size_t len;
	int status = client_ask(&feeder->client, &request, &err);
	if (status > 0) /* read, so that the next one can be asked */
		free(client_body(&feeder->client, 65536, &len, &err));
	return status == 200 ? 0 : -1;
}

/* Passes on what is whole characters, and keeps the beginning of one. -1: that was the end. */
static int feed(struct feeder *feeder, char *data, size_t *len, size_t room)
{
	ssize_t n = read(STDIN_FILENO, data + *len, room - *len);
	bool end = n <= 0;
	*len += n > 0 ? (size_t)n : 0;
	size_t whole = end ? *len : *len - utf8_partial(data, *len);
	json_t *text = json_stringn(data, whole);
	if (!text) {
		fprintf(stderr, "aio exec: standard input that is not UTF-8 cannot be passed on\n");
		text = json_string("");
		end = true;
	}
	json_t *input = json_pack("{sosb}", "input", text, "close", end);
	if (tell(feeder, "/v1/bash/write", input) < 0)
		return -1; /* it has closed it, or has ended */
	memmove(data, data + whole, *len - whole);
	*len -= whole;
	return end ? -1 : 0;
}

static void *feed_all(void *arg)
{
	struct feeder *feeder = arg;
	char data[16384];
	size_t len = 0;
	int asked = 0;
	struct pollfd wait[] = { { feeder->done, POLLIN, 0 },
				 { feeder->signals, POLLIN, 0 },
				 { STDIN_FILENO, POLLIN, 0 } };
	while (poll(wait, COUNT(wait), -1) >= 0 || errno == EINTR) {
		struct signalfd_siginfo info;
		if (wait[0].revents)
			break;
		if (wait[1].revents && read(feeder->signals, &info, sizeof info) > 0)
			(void)tell(feeder, "/v1/bash/kill",
				   json_pack("{ss}", "signal",
					     asked++                    ? "SIGKILL"
					     : info.ssi_signo == SIGINT ? "SIGINT"
									: "SIGTERM"));
		if (wait[2].revents && feed(feeder, data, &len, sizeof data) < 0)
			wait[2].fd = -1;
	}
	return NULL;
}

static void start_feeding(struct feeder *feeder, const json_t *event)
{
	struct err err;
	const char *session = json_string_value(json_object_get(event, "session_id"));
	const char *command = json_string_value(json_object_get(event, "command_id"));
	if (feeder->started || !session || !command ||
	    client_open(&feeder->client, feeder->remote->url, &err) < 0)
		return;
	snprintf(feeder->session, sizeof feeder->session, "%s", session);
	snprintf(feeder->command, sizeof feeder->command, "%s", command);
	feeder->started = pthread_create(&feeder->thread, NULL, feed_all, feeder) == 0;
	if (!feeder->started)
		client_close(&feeder->client);
}

static void end_feeding(struct feeder *feeder)
{
	if (feeder->started) {
		(void)eventfd_write(feeder->done, 1);
		pthread_join(feeder->thread, NULL);
		client_close(&feeder->client);
	}
	own_close(&feeder->done);
	own_close(&feeder->signals);
}

static void prepare_feeding(struct feeder *feeder, const struct remote *remote,
			    const char *const *headers)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	*feeder = (struct feeder){ .remote = remote,
				   .headers = headers,
				   .signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK),
				   .done = eventfd(0, EFD_CLOEXEC) };
}

static void take_data(struct stream *s, const char *data)
{
	json_t *event = json_loads(data, JSON_ALLOW_NUL, NULL);
	if (!event)
		fprintf(stderr, "aio exec: the box sent an event that is none\n");
	if (!strcmp(s->event, "start"))
		start_feeding(&s->feeder, event);
	json_t *output = json_object_get(event, "data");
	FILE *to = !strcmp(s->event, "stderr") ? stderr : stdout;
	if ((!strcmp(s->event, "stdout") || !strcmp(s->event, "stderr")) &&
	    json_is_string(output)) {
		fwrite(json_string_value(output), 1, json_string_length(output), to);
		fflush(to);
	} else if (!strcmp(s->event, "exit")) {
		json_t *code = json_object_get(event, "exit_code");
		s->status = json_is_integer(code) ? (int)json_integer_value(code) : 1;
		s->ended = true;
	}
	json_decref(event);
}

static void take_line(struct stream *s)
{
	const char *line = s->line.data ? s->line.data : "";
	if (!strncmp(line, "event:", 6))
		snprintf(s->event, sizeof s->event, "%s", line + 6 + (line[6] == ' '));
	else if (!strncmp(line, "data:", 5))
		take_data(s, line + 5 + (line[5] == ' '));
	s->line.len = 0;
	if (s->line.data)
		s->line.data[0] = 0;
}

static int run_plain(const struct remote *remote, char *headers[3], const char *command,
		     struct err *err)
{
	struct client client;
	struct stream s = { .line = BUF(LINE_MAX_BYTES), .status = 1 };
	json_t *body = json_pack("{ss}", "command", command);
	auto_free char *text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (client_open(&client, remote->url, err) < 0)
		return -1;
	const char *all[] = { "Accept: text/event-stream", headers[0], headers[1], NULL };
	prepare_feeding(&s.feeder, remote, all + 1);
	struct client_request request = { "POST", "/v1/bash/exec", all, NULL, text, strlen(text) };
	int status = client_ask(&client, &request, err);
	char piece[16384];
	ssize_t n = 0;
	while (status == 200 && (n = client_read(&client, piece, sizeof piece, err)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (piece[i] == '\n')
				take_line(&s);
			else
				buf_add(&s.line, piece + i, 1);
		}
	size_t len = 0;
	auto_free char *answer = status > 200 ? client_body(&client, 65536, &len, err) : NULL;
	client_close(&client);
	end_feeding(&s.feeder);
	buf_done(&s.line);
	if (status > 200)
		return err_set(err, ERR_BAD_REQUEST, "the box answers %d: %s", status,
			       answer ? answer : "");
	if (status < 0 || n < 0 || !s.ended)
		return status < 0 || n < 0 ? -1 : err_set(err, ERR_GONE, "the box went away");
	return s.status;
}

/* ---- with a terminal ---- */

static int send_json(struct ws *ws, json_t *message, struct err *err)
{
	auto_free char *text = json_dumps(message, JSON_COMPACT);
	json_decref(message);
	return text ? ws_send(ws, WS_TEXT, text, strlen(text), err) : 0;
}

static int send_size(struct ws *ws, struct err *err)
{
	struct winsize size = { 0 };
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return 0;
	return send_json(ws,
			 json_pack("{sss{sisi}}", "type", "resize", "data", "cols", size.ws_col,
				   "rows", size.ws_row),
			 err);
}

struct session {
	struct ws *ws;
	const char *command; /* to be typed once the shell is ready; NULL: none */
	int status;
	bool ended;
	char id[80];
};

static int take_message(struct session *s, const struct ws_message *message, struct err *err)
{
	json_t *object = json_loadb(message->data, message->len, JSON_ALLOW_NUL, NULL);
	const char *type = json_string_value(json_object_get(object, "type"));
	json_t *data = json_object_get(object, "data");
	int result = 0;
	if (!type) {
		/* nothing we know */
	} else if ((!strcmp(type, "output") || !strcmp(type, "restore_output")) &&
		   json_is_string(data)) {
		fwrite(json_string_value(data), 1, json_string_length(data), stdout);
		fflush(stdout);
	} else if (!strcmp(type, "session_id") && json_is_string(data)) {
		snprintf(s->id, sizeof s->id, "%s", json_string_value(data));
	} else if (!strcmp(type, "ready") && s->command) {
		auto_free char *line = xasprintf("exec bash -c %s\r", s->command);
		result = send_json(s->ws, json_pack("{ssss}", "type", "input", "data", line), err);
		s->command = NULL;
	} else if (!strcmp(type, "exit")) {
		s->status = (int)json_integer_value(json_object_get(data, "exit_code"));
		s->ended = true;
	}
	json_decref(object);
	return result;
}

static int attend(struct session *s, int signals, struct err *err)
{
	struct pollfd pfds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				 { .fd = ws_fd(s->ws), .events = POLLIN },
				 { .fd = signals, .events = POLLIN } };
	struct ws_message message;
	while (!s->ended) {
		if (!ws_pending(s->ws) && poll(pfds, COUNT(pfds), -1) < 0 && errno != EINTR)
			return err_set(err, errno, "poll");
		struct signalfd_siginfo info;
		if (pfds[2].revents && read(signals, &info, sizeof info) > 0 &&
		    send_size(s->ws, err) < 0)
			return -1;
		char typed[4096];
		ssize_t n = pfds[0].revents ? read(STDIN_FILENO, typed, sizeof typed) : -1;
		if (n == 0)
			pfds[0].fd = -1;
		if (n > 0 &&
		    send_json(s->ws,
			      json_pack("{ssss%}", "type", "input", "data", typed, (size_t)n),
			      err) < 0)
			return -1;
		int got = ws_recv(s->ws, &message, 0, err);
		if (got == 0 || (got < 0 && err->code != ERR_SLOW))
			return got == 0 ? 0 : -1;
		if (got > 0 && take_message(s, &message, err) < 0)
			return -1;
	}
	return 0;
}

static int run_terminal(const struct remote *remote, char *headers[3], const char *command,
			struct err *err)
{
	struct termios before, raw;
	sigset_t changes;
	auto_free char *url = xasprintf("ws%s/v1/shell/ws", remote->url + 4);
	struct session s = { .command = command, .status = 1 };
	s.ws = ws_connect(url, (const char *const *)headers, NULL, err);
	if (!s.ws)
		return -1;
	sigemptyset(&changes);
	sigaddset(&changes, SIGWINCH);
	sigprocmask(SIG_BLOCK, &changes, NULL);
	auto_close int signals = signalfd(-1, &changes, SFD_CLOEXEC | SFD_NONBLOCK);
	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	cfmakeraw(&raw);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	int result = send_size(s.ws, err);
	if (result == 0)
		result = attend(&s, signals, err);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	ws_close(s.ws, WS_NORMAL, NULL);
	ws_free(s.ws);
	struct client client;
	struct err ignored;
	if (*s.id && client_open(&client, remote->url, &ignored) == 0) {
		auto_free char *target = xasprintf("/v1/shell/sessions/%s", s.id);
		struct client_request request = { "DELETE", target, (const char *const *)headers,
						  NULL,     NULL,   0 };
		(void)client_ask(&client, &request, &ignored);
		client_close(&client);
	}
	return result < 0 ? -1 : s.status;
}

int exec_in_box(const struct remote *remote, const char *id, int argc, char **argv, struct err *err)
{
	char *headers[3] = { NULL };
	auto_buf struct buf line = BUF(1 << 20), quoted = BUF(1 << 21);
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
			!strncmp(remote->url, "http", 4);
	if (argc && !strcmp(argv[0], "--")) {
		argc--;
		argv++;
	}
	if (!argc && !terminal)
		return err_set(err, ERR_INVALID, "a shell needs a terminal; else give a command");
	if (remote_box(remote, id, headers, err) < 0)
		return -1;
	command_line(argc, argv, &line);
	char *two[] = { line.data ? line.data : (char *)"", (char *)"" };
	command_line(2, two, &quoted); /* two words, so that the first is quoted */
	int result = terminal ? run_terminal(remote, headers, argc ? quoted.data : NULL, err)
			      : run_plain(remote, headers, line.data, err);
	free(headers[0]);
	free(headers[1]);
	return result;
}
