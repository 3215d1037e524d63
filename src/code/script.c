#include "code/script.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "code/code_events.h"
#include "code/kernels.h"
#include "config/config.h"
#include "config/distribution.h"
#include "fs/workdir.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/command.h"
#include "proc/limits.h"
#include "proc/tree.h"
#include "proc/user.h"

enum { PIECE = 65536, SHOWN_MAX = 32 << 20 };

static const char too_much[] = "[figures of more than 32 MiB: the others were left out]\n";
static const char *const stream_names[] = { "stdout", "stderr" };

struct script {
	struct call *call;
	const struct script_job *job;
	struct script_result *result;
	struct command *command;
	int64_t at[2];
	size_t given; /* bytes of the code that it has read */
	int shown_fd; /* a file of what Python shows: share/kernel/figures.py */
};

/* ---- starting ---- */

const char *script_interpreter(struct call *call, const char *language, struct err *err)
{
	struct tools_where where;
	if (kernels_where(call->server, &where, err) < 0)
		return NULL;
	const char *name = !strcmp(language, "python") ? "python3" : "bash";
	auto_free char *found = tools_find(&where, name, 0);
	if (found)
		return arena_strdup(call->arena, found);
	err_set(err, ERR_UNAVAILABLE,
		"%s is not installed: add the package %s to the image of this box, or install it (%s %s)",
		language, name, distribution_add(), name);
	return NULL;
}

/* Python gets its code on standard input, bash as an argument, so that it can read nothing. */
static char **arguments(struct script *script, const char *program)
{
	struct arena *arena = script->call->arena;
	char **argv = arena_alloc(arena, 5 * sizeof *argv);
	bool python = !strcmp(script->job->language, "python");
	argv[0] = (char *)program;
	argv[1] = python ? arena_printf(arena, "%s/share/kernel/script.py",
					script->call->server->home)
			 : (char *)"-c";
	argv[2] = !python ? (char *)"--" : script->job->value ? (char *)"value" : NULL;
	argv[3] = python ? NULL : (char *)script->job->code.data;
	argv[4] = NULL;
	if (!python)
		script->given = script->job->code.len;
	return argv;
}

static int start(struct script *script, const char *marker, struct err *err)
{
	struct call *call = script->call;
	const struct config *config = call->server->config;
	const struct user *user = user_sandbox(config->user, err);
	const char *program = user ? script_interpreter(call, script->job->language, err) : NULL;
	const char *cwd;
	if (!program || workdir_find(call, "cwd", script->job->cwd, &cwd, err) < 0)
		return -1;
	struct spawn spawn = {
		.path = program,
		.argv = arguments(script, program),
		.cwd = cwd ? cwd : config->workspace,
		.fds = { -1, -1, -1, script->shown_fd },
		.extras = !strcmp(script->job->language, "python"),
	};
	spawn_sandboxed(&spawn, call->arena, user, call->server->home, marker, NULL);
	script->command = command_start(&spawn, clock_ms() + script->job->timeout * 1000, err);
	return script->command ? 0 : -1;
}

/* ---- what it prints ---- */

static int give_piece(struct script *script, int stream, const char *data, size_t len,
		      struct err *err)
{
	const char *name = stream_names[stream];
	if (script->job->events && code_events_text(script->call, name, data, len, err) < 0)
		return -1;
	outputs_stream(script->result->outputs, name, data, len);
	return 0;
}

/* Takes what is new; a character that is cut off waits for its rest. */
static int take_new(struct script *script, bool ended, struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	for (int i = 0; i < 2; i++)
		for (;;) {
			const struct command_view *view = command_lock(script->command);
			size_t n = output_read(&view->out[i], script->at[i], piece, PIECE);
			command_unlock(script->command);
			size_t partial = n ? utf8_partial(piece, n) : 0;
			if (!(ended && partial == n))
				n -= partial;
			if (!n)
				break;
			script->at[i] += (int64_t)n;
			if (give_piece(script, i, piece, n, err) < 0)
				return -1;
		}
	return 0;
}

/* Gives as much of the code as fits. True while there is more. */
static bool give_code(struct script *script)
{
	const struct text *code = &script->job->code;
	while (script->given < code->len) {
		ssize_t n = command_input(script->command, code->data + script->given,
					  code->len - script->given, NULL);
		if (n == 0)
			return true;
		script->given = n < 0 ? code->len : script->given + (size_t)n;
	}
	command_input_close(script->command);
	return false;
}

static int attend(struct script *script, struct err *err)
{
	struct call *call = script->call;
	for (;;) {
		const struct command_view *view = command_lock(script->command);
		bool ended = view->state != COMMAND_RUNNING;
		uint64_t seen = view->changes;
		command_unlock(script->command);
		bool feeding = give_code(script);
		if (take_new(script, ended, err) < 0)
			return -1;
		if (ended)
			return 0;
		struct wait wait = call_until_ping(call, INT64_MAX);
		enum wake wake = command_wait_next(script->command, &seen, feeding, &wait);
		if (wake > WAKE_TIMEOUT)
			return wake_err(wake, err);
		if (wake == WAKE_TIMEOUT && script->job->events && call_event_ping(call, err) < 0)
			return -1;
	}
}

/* ---- how it ended ---- */

/* The last traceback of a program that failed, as an error among the outputs. */
static void find_error(struct script *script)
{
	auto_buf struct buf text = BUF(SIZE_MAX / 2);
	outputs_text(script->result->outputs, "stderr", &text);
	static const char head[] = "Traceback (most recent call last):";
	const char *from = NULL;
	for (const char *at = text.data; at && (at = strstr(at, head)); at++)
		from = at;
	if (!from) /* of a SyntaxError there is only this much */
		from = text.data ? strstr(text.data, "  File \"main.py\"") : NULL;
	if (!from)
		return;
	json_t *lines = json_array(), *error = json_object();
	auto_free char *copy = xstrdup(from);
	char *rest = copy;
	const char *last = "";
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (*line || rest)
			json_array_append_new(lines, json_stringn(line, strlen(line)));
		if (*line && *line != ' ' && strcmp(line, head) != 0)
			last = line;
	}
	size_t name = strcspn(last, ":");
	json_object_set_new(error, "ename", json_stringn(last, name));
	const char *value = last + name + (last[name] != 0);
	json_object_set_new(error, "evalue", json_string(value + strspn(value, " ")));
	json_object_set_new(error, "traceback", lines);
	struct err ignored;
	if (script->job->events)
		(void)code_events_message(script->call, "error", error, &ignored);
	outputs_add(script->result->outputs, "error", error);
	json_decref(error);
}

static void show(struct script *script, char *line, size_t len)
{
	struct err ignored;
	json_t *content = json_parse(line, len, &ignored);
	const char *type = json_is_true(json_object_get(content, "value")) ? "execute_result"
									   : "display_data";
	if (json_is_object(json_object_get(content, "data"))) {
		if (script->job->events)
			(void)code_events_message(script->call, type, content, &ignored);
		outputs_add(script->result->outputs, type, content);
	}
	json_decref(content);
}

/* What it has shown: a line for each. Anything may stand in that file. */
static void take_shown(struct script *script)
{
	struct stat st;
	if (fstat(script->shown_fd, &st) < 0 || st.st_size <= 0)
		return;
	size_t size = st.st_size > SHOWN_MAX ? SHOWN_MAX : (size_t)st.st_size, len = 0;
	auto_free char *text = xmalloc(size + 1);
	for (ssize_t n; len < size; len += (size_t)n) {
		n = pread(script->shown_fd, text + len, size - len, (off_t)len);
		if (n <= 0)
			break;
	}
	for (char *at = text, *end; (end = memchr(at, '\n', len - (size_t)(at - text)));
	     at = end + 1)
		show(script, at, (size_t)(end - at));
	if (st.st_size > SHOWN_MAX)
		outputs_stream(script->result->outputs, "stderr", too_much, sizeof too_much - 1);
}

static void finish(struct script *script)
{
	const struct command_view *view = command_lock(script->command);
	script->result->exit_code = view->exit_code;
	bool timed_out = view->state == COMMAND_TIMED_OUT;
	if (view->out[COMMAND_STDOUT].lost || view->out[COMMAND_STDERR].lost)
		script->result->notice =
			"Output was lost: there was no room for it on the disk, or it is more than 1 GiB.";
	if (view->starved)
		script->result->notice = LIMITS_STARVED ". " LIMITS_STARVED_HINT;
	command_unlock(script->command);
	take_shown(script);
	script->result->status = timed_out ? "timeout" : script->result->exit_code ? "error" : "ok";
	if (script->result->exit_code && !strcmp(script->job->language, "python"))
		find_error(script);
}

static void free_outputs(void *outputs)
{
	outputs_done(outputs);
}

int script_run(struct call *call, const struct script_job *job, struct script_result *ret,
	       struct err *err)
{
	auto_close int shown_fd = memfd_create("shown", MFD_CLOEXEC);
	struct script script = { .call = call, .job = job, .result = ret, .shown_fd = shown_fd };
	char marker[112];
	if (shown_fd < 0)
		return err_set(err, ERR_LIMIT, "no descriptor for a program");
	*ret = (struct script_result){ .outputs = arena_alloc(call->arena, sizeof *ret->outputs) };
	outputs_init(ret->outputs, (size_t)call->server->config->kernel_output);
	arena_defer(call->arena, free_outputs, ret->outputs);
	tree_marker(marker, sizeof marker, "script");
	if (start(&script, marker, err) < 0)
		return -1;
	const struct journal_started started = { job->language, NULL, NULL, job->code };
	struct journal_run *running = journal_begin(JOURNAL_CODE_STARTED, &started);
	int result = job->events ? code_events_start(call, job->language, NULL, err) : 0;
	if (result == 0)
		result = attend(&script, err);
	if (result == 0)
		finish(&script);
	journal_end(running, result < 0 ? "cancelled" : ret->status,
		    result < 0 ? INT_ABSENT : ret->exit_code);
	command_condemn(script.command);
	tree_end(marker); /* what it left running, too */
	command_abandon(script.command);
	command_unref(script.command);
	return result;
}
