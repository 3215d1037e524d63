/* A process of Node.js is a command with two more descriptors: 3, from which it gets code, and 4, on
 * which it says what came of it (share/node/channel.cjs). The pump collects what it says and prints;
 * the thread that runs code takes it from there. */
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "node/frame.h"
#include "node/node_files.h"
#include "node/node_outcome.h"
#include "proc/command.h"
#include "proc/pump.h"
#include "proc/tree.h"
#include "proc/user.h"

enum {
	GRACE_MS = 3000, /* for a session to be interrupted, before it is ended */
	REST_MS = 1000,  /* for the channel of a process that has ended */
	PING_MS = 15000, /* between looks at whether a caller still listens */
	MESSAGE_MAX = 8 << 20,
	MESSAGES_MAX = 1000, /* waiting to be taken */
	TOLD_MAX = 2 * MESSAGE_MAX,
	PIECE = 65536,
};

const char *const node_status_names[] = { "ok", "error", "timeout", NULL };

/* Something that the process said, waiting to be taken. */
struct said {
	struct said *next;
	char type; /* 'o', 'e' or 'J' */
	size_t len;
	char data[];
};

struct node {
	struct source channel; /* the pump's, which holds a reference; first: see node_of() */
	_Atomic int refs;
	pthread_mutex_t lock; /* of all but command, input_fd, taken and what is said once */
	struct waiter *waiters;
	struct frame_reader reader;
	struct buf message; /* the pieces of one that is not complete */
	struct said *first, **last;
	size_t output, messages, told; /* in the list: bytes of output; messages, and their bytes */
	int64_t lost[2];
	bool channel_open, broken; /* broken: it said what cannot be understood */

	struct command *command;
	char marker[112];
	int input_fd;     /* where a session's code goes; -1 */
	int64_t taken[2]; /* of what it printed past us */
	int64_t count;
};

/* ---- what the pump calls ---- */

static struct node *node_of(struct source *source)
{
	return (struct node *)source; /* its first member */
}

struct node *node_ref(struct node *node)
{
	atomic_fetch_add(&node->refs, 1);
	return node;
}

void node_unref(struct node *node)
{
	if (!node || atomic_fetch_sub(&node->refs, 1) > 1)
		return;
	for (struct said *said = node->first, *next; said; said = next) {
		next = said->next;
		free(said);
	}
	if (node->command)
		command_abandon(node->command);
	command_unref(node->command);
	if (node->input_fd >= 0)
		close(node->input_fd);
	buf_done(&node->message);
	pthread_mutex_destroy(&node->lock);
	free(node);
}

/* With the lock. What has no room is left out: nobody may be there to take it. */
static void hear(struct node *node, char type, const char *data, size_t len)
{
	bool message = type == 'J';
	if (message ? node->messages >= MESSAGES_MAX || node->told + len > TOLD_MAX
		    : node->output + len > NODE_OUTPUT_MAX) {
		if (!message)
			node->lost[type == 'e'] += (int64_t)len;
		return;
	}
	struct said *said = xmalloc(sizeof *said + len + 1);
	said->next = NULL;
	said->type = type;
	said->len = len;
	memcpy(said->data, data, len);
	said->data[len] = 0;
	*node->last = said;
	node->last = &said->next;
	node->messages += message;
	*(message ? &node->told : &node->output) += len;
	waiter_wake(node->waiters);
}

static int take_frame(void *arg, char type, const char *data, size_t len)
{
	struct node *node = arg;
	if (type == 'o' || type == 'e') {
		hear(node, type, data, len);
		return 0;
	}
	if ((type != 'j' && type != 'J') || buf_add(&node->message, data, len) < 0)
		return -1;
	if (type == 'J') {
		hear(node, 'J', node->message.data ? node->message.data : "", node->message.len);
		buf_done(&node->message);
	}
	return 0;
}

static bool channel_ready(struct source *source)
{
	static char data[PIECE]; /* of the pump's thread alone */
	struct node *node = node_of(source);
	ssize_t n = read(source->fd, data, sizeof data);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	pthread_mutex_lock(&node->lock);
	node->broken = frame_feed(&node->reader, data, (size_t)n, take_frame, node) < 0;
	pthread_mutex_unlock(&node->lock);
	return !node->broken;
}

static void channel_done(struct source *source)
{
	struct node *node = node_of(source);
	pthread_mutex_lock(&node->lock);
	node->channel_open = false;
	waiter_wake(node->waiters);
	pthread_mutex_unlock(&node->lock);
	node_unref(node);
}

/* ---- starting ---- */

struct launch {
	const struct node_where *where;
	const char *script, *cwd;
	char *const *flags; /* of node; ends with NULL */
	const char *argument;
	int stdin_fd, code_fd;
};

static int start_command(struct node *node, const struct launch *launch, int channel_fd,
			 struct err *err)
{
	struct arena arena = { 0 };
	const struct node_where *where = launch->where;
	char *argv[12] = { (char *)"node" }, *script;
	size_t count = 1;
	for (char *const *flag = launch->flags; *flag && count < 8; flag++)
		argv[count++] = *flag;
	script = arena_printf(&arena, "%s/share/node/%s", where->home, launch->script);
	argv[count++] = script;
	argv[count++] = (char *)launch->argument;
	struct spawn spawn = {
		.path = where->program,
		.argv = argv,
		.cwd = launch->cwd,
		.fds = { launch->stdin_fd, -1, -1, launch->code_fd, channel_fd },
		.extras = 2,
	};
	spawn_sandboxed(&spawn, &arena, where->user, where->home, node->marker, NULL);
	node->command = command_start(&spawn, INT64_MAX, err);
	arena_done(&arena);
	return node->command ? 0 : -1;
}

static struct node *launch_node(const struct launch *launch, const char *id, struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_set(err, ERR_LIMIT, "no pipes for another process: %s", strerror(errno));
		return NULL;
	}
	auto_close int theirs = ends[1];
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	struct node *node = xcalloc(1, sizeof *node);
	node->refs = 2;
	node->input_fd = -1;
	node->last = &node->first;
	node->message.cap = MESSAGE_MAX;
	pthread_mutex_init(&node->lock, NULL);
	tree_marker(node->marker, sizeof node->marker, id);
	node->channel =
		(struct source){ .fd = ends[0], .ready = channel_ready, .done = channel_done };
	node->channel_open = true;
	if (pump_add(&node->channel, err) < 0) {
		close(ends[0]);
		node->refs = 1;
		node_unref(node);
		return NULL;
	}
	if (start_command(node, launch, theirs, err) == 0)
		return node;
	pump_drop(&node->channel);
	node_unref(node);
	return NULL;
}

void node_end(struct node *node)
{
	command_condemn(node->command);
	tree_end(node->marker);
}

static bool has_ended(struct node *node, int *ret_code)
{
	const struct command_view *view = command_lock(node->command);
	bool ended = view->state != COMMAND_RUNNING;
	*ret_code = view->exit_code;
	command_unlock(node->command);
	return ended;
}

void node_set_expendable(struct node *node, bool expendable)
{
	spawn_rate(command_pid(node->command), expendable ? WORTH_NOTHING : WORTH_COMMAND);
}

bool node_alive(struct node *node)
{
	pthread_mutex_lock(&node->lock);
	bool whole = node->channel_open && !node->broken;
	pthread_mutex_unlock(&node->lock);
	return whole && !command_ended(node->command);
}

/* ---- taking what it says and prints ---- */

/* One execution. */
struct node_run {
	struct node *node;
	const struct node_caller *caller;
	struct outcome *outcome;
	struct waiter waiters[2]; /* of the node, and of its command; they share the eventfd */
	int fd;
	int64_t id;     /* of a session's; 0 */
	json_t *answer; /* of a session; or the value or the error of a program */
	bool failed;    /* an error was told of */
	bool begun;     /* a session has taken the code */
	bool deserted;  /* by its caller: a session goes on */
	enum wake left; /* WAKE_LEFT, WAKE_STOPPING: nobody waits any more */
};

static void run_begin(struct node_run *run)
{
	run->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (int i = 0; i < 2; i++)
		run->waiters[i] = (struct waiter){ .fd = run->fd };
	pthread_mutex_lock(&run->node->lock);
	waiter_join(&run->node->waiters, &run->waiters[0]);
	pthread_mutex_unlock(&run->node->lock);
	command_lock(run->node->command);
	command_join(run->node->command, &run->waiters[1]);
	command_unlock(run->node->command);
}

static void run_end(struct node_run *run)
{
	pthread_mutex_lock(&run->node->lock);
	waiter_leave(&run->node->waiters, &run->waiters[0]);
	pthread_mutex_unlock(&run->node->lock);
	command_lock(run->node->command);
	command_leave(run->node->command, &run->waiters[1]);
	command_unlock(run->node->command);
	json_decref(run->answer);
	if (run->fd >= 0)
		close(run->fd);
}

/* A program says {"value"} or {"error"}; a session {"ready"}, {"id", "status", …}, or {"error", "stray"} of what
 * nobody has caught. */
static void take_message(struct node_run *run, char *data, size_t len)
{
	json_t *message = json_parse(data, len, NULL);
	const json_t *error = json_object_get(message, "error");
	int64_t id = json_integer_value(json_object_get(message, "id"));
	if (!run->id && (error || json_object_get(message, "value"))) {
		json_decref(run->answer); /* the latest is what ends it */
		run->answer = json_incref(message);
	} else if (json_object_get(message, "stray") && json_is_object(error)) {
		outcome_error(run->outcome, error, false);
		run->failed = run->failed || id == run->id;
	} else if (id == run->id && json_object_get(message, "begun")) {
		run->begun = true;
	} else if (id == run->id && !run->answer) {
		run->answer = json_incref(message);
	}
	json_decref(message);
}

static int take_said(struct node_run *run, struct err *err)
{
	struct node *node = run->node;
	int result = 0;
	pthread_mutex_lock(&node->lock);
	struct said *all = node->first;
	node->first = NULL;
	node->last = &node->first;
	node->output = node->messages = node->told = 0;
	int64_t lost[2] = { node->lost[0], node->lost[1] };
	node->lost[0] = node->lost[1] = 0;
	pthread_mutex_unlock(&node->lock);
	for (struct said *said = all, *next; said; said = next) {
		next = said->next;
		if (said->type == 'J')
			take_message(run, said->data, said->len);
		else if (result == 0)
			result = outcome_output(run->outcome,
						said->type == 'e' ? NODE_STDERR : NODE_STDOUT,
						said->data, said->len, err);
		free(said);
	}
	for (int i = 0; i < 2; i++)
		outcome_lost(run->outcome, (enum node_stream)i, lost[i]);
	return result;
}

static int take_printed(struct node_run *run, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	for (int i = 0; i < 2; i++) {
		size_t n;
		while ((n = command_take(run->node->command, i, &run->node->taken[i], piece,
					 PIECE)))
			if (outcome_output(run->outcome, (enum node_stream)i, piece, n, err) < 0)
				return -1;
	}
	return 0;
}

static int take_all(struct node_run *run, struct err *err)
{
	int result = take_said(run, err) < 0 || take_printed(run, err) < 0 ? -1 : 0;
	if (result < 0)
		run->left = WAKE_LEFT;
	return result;
}

static struct wait until(const struct node_run *run, int64_t until_ms)
{
	return (struct wait){ until_ms, run->deserted ? -1 : run->caller->client_fd,
			      run->caller->stop_fd };
}

/* Notes what has ended a wait; false when nobody waits any more. */
static bool note(struct node_run *run, enum wake wake)
{
	if (wake == WAKE_LEFT && run->id)
		run->deserted = true;
	else if (wake > WAKE_TIMEOUT)
		run->left = wake;
	return !run->left;
}

/* Waits for news, or a moment: false when nobody waits any more. */
static bool await_news(struct node_run *run, int64_t until_ms)
{
	const struct node_caller *caller = run->caller;
	struct err ignored;
	int64_t ping = caller->write && !run->deserted ? clock_ms() + PING_MS : INT64_MAX;
	struct wait wait = until(run, until_ms < ping ? until_ms : ping);
	enum wake wake = wait_check(&wait); /* one that prints without end is always ready */
	if (wake <= WAKE_TIMEOUT)
		wake = wait_event(&wait, run->fd);
	if (wake == WAKE_TIMEOUT && ping < until_ms &&
	    caller->write(caller->arg, NODE_STDOUT, NULL, 0, &ignored) < 0)
		wake = WAKE_LEFT;
	return note(run, wake);
}

/* Waits and takes until there is an answer, the process has ended and told all, the caller has left,
 * or the moment has come. */
static void wait_for(struct node_run *run, int64_t until_ms, struct err *err)
{
	struct node *node = run->node;
	for (int64_t rest = INT64_MAX; take_all(run, err) == 0 && !(run->id && run->answer);) {
		pthread_mutex_lock(&node->lock);
		bool open = node->channel_open, broken = run->id && node->broken;
		pthread_mutex_unlock(&node->lock);
		bool ended = has_ended(node, &(int){ 0 });
		/* The two come together, in any order; but anybody can close a descriptor. */
		if ((ended || (run->id && !open)) && rest == INT64_MAX)
			rest = clock_ms() + REST_MS;
		if ((ended && !open) || broken || clock_ms() >= rest)
			break;
		int64_t next = rest < until_ms ? rest : until_ms;
		if (clock_ms() >= next || !await_news(run, next))
			return;
	}
	/* What was printed past the channel may still be on its way. The pipes are looked at before what
	 * came is taken: the pump may move it in between. */
	int64_t rest = clock_ms() + REST_MS;
	for (bool pending = true; pending && !run->left;) {
		pending = command_pending(node->command) && clock_ms() < rest;
		if (take_all(run, err) != 0)
			break;
		if (pending)
			(void)await_news(run, rest);
	}
}

/* Ends the process and waits for its end, which is certain. */
static int put_down(struct node_run *run)
{
	int code;
	node_end(run->node);
	while (!has_ended(run->node, &code))
		(void)wait_event(&(struct wait){ INT64_MAX, -1, -1 }, run->fd);
	return code;
}

/* ---- a program ---- */

static int memory_file(const char *name, const struct text *text, struct err *err)
{
	auto_close int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "memfd");
	for (size_t done = 0; done < text->len;) {
		ssize_t n = write(fd, text->data + done, text->len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, errno, "memfd");
		done += (size_t)n;
	}
	lseek(fd, 0, SEEK_SET);
	return TAKE_FD(fd);
}

static struct node *launch_program(const struct node_where *where,
				   const struct node_request *request, const char *dir,
				   struct err *err)
{
	static char transform[] = "--experimental-transform-types";
	static char quiet[] = "--disable-warning=ExperimentalWarning";
	char *flags[3] = { NULL };
	if (request->typescript) {
		flags[0] = quiet;
		flags[1] = where->transforms ? transform : NULL;
	}
	auto_close int code = memory_file("code", &request->code, err);
	auto_close int input = code < 0 ? -1 : memory_file("stdin", &request->input, err);
	if (input < 0)
		return NULL;
	return launch_node(&(struct launch){ .where = where,
					     .script = "run.cjs",
					     .cwd = dir,
					     .flags = flags,
					     .argument = request->typescript && request->value
								 ? "typescript,value"
							 : request->typescript ? "typescript"
							 : request->value      ? "value"
									       : NULL,
					     .stdin_fd = input,
					     .code_fd = code },
			   "node", err);
}

static int run_program(struct node_run *run, const struct node_request *request,
		       struct node_result *ret, struct err *err)
{
	struct node *node = run->node;
	run_begin(run);
	wait_for(run, clock_ms() + request->timeout_ms, err);
	bool late = !run->left && !has_ended(node, &ret->exit_code);
	if (late || run->left)
		ret->exit_code = put_down(run);
	else
		tree_end_orphans(node->marker);
	if (late)
		wait_for(run, clock_ms() + REST_MS, err);
	ret->status = late ? NODE_TIMEOUT : ret->exit_code ? NODE_FAILED : NODE_OK;
	const json_t *error = json_object_get(run->answer, "error");
	if (ret->status == NODE_FAILED && error)
		outcome_error(run->outcome, error, true);
	if (ret->status == NODE_OK)
		outcome_value(run->outcome, json_object_get(run->answer, "value"));
	int result = run->left ? wake_err(run->left, err) : outcome_finish(run->outcome, ret, err);
	run_end(run);
	return result;
}

int node_run(const struct node_where *where, const struct node_request *request,
	     const struct node_caller *caller, struct arena *arena, struct node_result *ret,
	     struct err *err)
{
	char fresh[4096] = "";
	*ret = (struct node_result){ 0 };
	if (!request->cwd && node_files_dir(where->user, fresh, sizeof fresh, err) < 0)
		return -1;
	const char *dir = request->cwd ? request->cwd : fresh;
	struct node_run run = { .caller = caller, .outcome = outcome_new(arena, caller) };
	int result = node_files_write(where->user, dir, &request->files, err);
	if (result == 0) {
		run.node = launch_program(where, request, dir, err);
		result = run.node ? run_program(&run, request, ret, err) : -1;
	}
	if (run.node)
		node_files_forget(where->user, dir, command_pid(run.node->command));
	if (*fresh)
		node_files_remove(where->user, fresh);
	node_unref(run.node);
	return result;
}

/* ---- a session ---- */

struct node *node_open(const struct node_where *where, const char *id, const char *cwd,
		       struct err *err)
{
	/* An interrupted timer leaves Node.js's account of its callbacks wrong, which it takes for
	 * reason enough to abort. */
	static char lenient[] = "--no-force-async-hooks-checks";
	static char quiet[] = "--disable-warning=ExperimentalWarning";
	char *flags[] = { lenient, quiet, NULL };
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_set(err, ERR_LIMIT, "no pipes for another session: %s", strerror(errno));
		return NULL;
	}
	auto_close int theirs = ends[0];
	auto_close int ours = ends[1];
	auto_close int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fcntl(ours, F_SETFL, O_NONBLOCK);
	struct node *node = launch_node(&(struct launch){ .where = where,
							  .script = "repl.cjs",
							  .cwd = cwd,
							  .flags = flags,
							  .stdin_fd = null,
							  .code_fd = theirs },
					id, err);
	if (node)
		node->input_fd = TAKE_FD(ours);
	return node;
}

/* Gives it the code. A process that is busy with what earlier code has left running may take it late,
 * or never. False when it was not taken. */
static bool give(struct node_run *run, const char *data, size_t len, int64_t until_ms)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(run->node->input_fd, data + done, len - done);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
		if (n > 0)
			continue;
		struct wait wait = until(run, until_ms);
		enum wake wake = wait_fd(&wait, run->node->input_fd, POLLOUT);
		if (!note(run, wake) || wake == WAKE_TIMEOUT)
			return false;
	}
	return true;
}

static bool send_request(struct node_run *run, const struct node_request *request, int64_t until_ms)
{
	struct jw jw;
	jw_init(&jw, (size_t)NODE_CODE_MAX * 6 + 65536);
	(void)buf_add(&jw.out, "\0\0\0\0", 4);
	jw_open(&jw, '{');
	jw_key_int(&jw, "id", run->id);
	jw_key_int(&jw, "timeout", request->timeout_ms);
	jw_key_bool(&jw, "typescript", request->typescript);
	if (request->cwd)
		jw_key_str(&jw, "cwd", request->cwd);
	jw_key(&jw, "code");
	jw_text(&jw, request->code.data, request->code.len);
	jw_close(&jw, '}');
	bool sent = !jw_failed(&jw);
	uint32_t len = (uint32_t)jw.out.len - 4;
	for (int i = 0; sent && i < 4; i++)
		jw.out.data[i] = (char)(len >> 8 * i & 0xff);
	sent = sent && give(run, jw.out.data, jw.out.len, until_ms);
	jw_done(&jw);
	return sent;
}

/* What the answer of a session says. */
static void judge(struct node_run *run, struct arena *arena, struct node_result *ret)
{
	const json_t *error = json_object_get(run->answer, "error");
	const char *status = json_string_value(json_object_get(run->answer, "status"));
	const char *cwd = json_string_value(json_object_get(run->answer, "cwd"));
	if (json_is_object(error))
		outcome_error(run->outcome, error, false);
	outcome_value(run->outcome, json_object_get(run->answer, "value"));
	ret->status = status && !strcmp(status, "timeout")                  ? NODE_TIMEOUT
		      : run->failed || !status || strcmp(status, "ok") != 0 ? NODE_FAILED
									    : NODE_OK;
	ret->exit_code = ret->status != NODE_OK;
	ret->cwd = cwd ? arena_strdup(arena, cwd) : NULL;
	if (ret->status == NODE_TIMEOUT)
		ret->notice = "it was interrupted; the session's state is kept";
}

/* Without an answer the process is at its end, or is brought there. */
static void bury(struct node_run *run, struct arena *arena, struct node_result *ret,
		 struct err *err)
{
	struct node *node = run->node;
	bool late = !has_ended(node, &ret->exit_code);
	pthread_mutex_lock(&node->lock);
	bool broken = node->broken || !node->channel_open;
	pthread_mutex_unlock(&node->lock);
	if (late) {
		ret->exit_code = put_down(run);
		(void)take_all(run, err);
	} else {
		tree_end_orphans(node->marker);
		ret->unborn = !run->begun;
	}
	ret->status = late && !broken          ? NODE_TIMEOUT
		      : late || ret->exit_code ? NODE_FAILED
					       : NODE_OK;
	ret->notice = arena_printf(
		arena,
		late && !broken ? "it could not be interrupted, and the process was ended (%d)%s"
		: late          ? "the code has broken the channel to the server (%d)%s"
				: "the process has exited with code %d%s",
		ret->exit_code, ": the session's state is lost, the next call starts it again");
}

static void await_end(struct node_run *run, int64_t until_ms)
{
	while (!has_ended(run->node, &(int){ 0 }) && clock_ms() < until_ms &&
	       await_news(run, until_ms))
		;
}

int node_execute(struct node *node, const struct node_request *request,
		 const struct node_caller *caller, struct arena *arena, struct node_result *ret,
		 struct err *err)
{
	struct node_run run = { .node = node,
				.caller = caller,
				.outcome = outcome_new(arena, caller),
				.id = ++node->count };
	int64_t until_ms = clock_ms() + request->timeout_ms + GRACE_MS;
	*ret = (struct node_result){ .count = node->count };
	run_begin(&run);
	if (send_request(&run, request, until_ms))
		wait_for(&run, until_ms, err);
	if (!run.begun && !run.left) { /* it is about to end by itself, or its time is up */
		await_end(&run, until_ms);
		wait_for(&run, until_ms, err);
	}
	if (run.answer)
		judge(&run, arena, ret);
	else if (!run.left)
		bury(&run, arena, ret, err);
	else
		(void)put_down(&run);
	run_end(&run);
	return run.left ? wake_err(run.left, err) : outcome_finish(run.outcome, ret, err);
}
