#include "code/nodejs_execute.h"

#include <signal.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "code/nodejs_programs.h"
#include "code/nodejs_sessions.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"
#include "proc/limits.h"

/* What the loader of programs ends with when a library is missing, and what it says then: glibc's of
 * "shared libraries", musl's of a "shared library". */
enum { NOT_STARTED = 127 };
static const char loader[] = "shared librar";

static const char not_started[] =
	"Node.js did not start: the product's needs glibc and libstdc++ (package libstdc++6) in "
	"the image of this box, or add a Node.js to it (package nodejs).";

struct nodejs_execute_listener {
	struct call *call;
	const struct nodejs_job *job;
	bool gone;
	struct journal_run *run; /* once the code runs */
};

static int write_output(void *arg, enum node_stream stream, const char *data, size_t len,
			struct err *err)
{
	struct nodejs_execute_listener *listener = arg;
	if (!len)
		return listener->call->wants_events ? call_event_ping(listener->call, err) : 0;
	if (listener->gone || listener->job->write(listener->job->arg, stream, data, len, err) == 0)
		return 0;
	listener->gone = true;
	return listener->job->stateful ? 0 : -1;
}

static void record_start(struct nodejs_execute_listener *listener, const char *session_id)
{
	const struct node_request *request = &listener->job->request;
	const struct journal_started started = { request->typescript ? "typescript" : "javascript",
						 session_id, NULL, request->code };
	listener->run = journal_begin(JOURNAL_CODE_STARTED, &started);
}

static int run_in_session(struct nodejs_execute_listener *listener, const struct node_where *where,
			  const struct node_caller *caller, struct node_result *ret,
			  const char **ret_session, struct err *err)
{
	const struct nodejs_job *job = listener->job;
	struct call *call = listener->call;
	const struct config *config = call->server->config;
	const struct nodejs_session_wish wish = { .id = job->session_id,
						  .cwd = job->request.cwd,
						  .program = where->program,
						  .idle_ms = config->session_ms };
	struct node_where at = *where;
	bool made;
	if (job->request.input.len)
		return err_set(err, ERR_BAD_REQUEST, "stdin: a session has none");
	auto_session struct nodejs_session *session =
		nodejs_session_open(config, &wish, &made, err);
	if (!session)
		return -1;
	const char *id = *ret_session = arena_strdup(call->arena, nodejs_session_id(session));
	at.program = nodejs_session_program(session);
	if (job->version && *job->version && strcmp(at.program, where->program) != 0)
		return err_set(err, ERR_CONFLICT, "the session '%.80s' runs %s", id, at.program);
	const struct wait wait = call_until(call, clock_ms() + job->request.timeout_ms);
	if (nodejs_session_take(session, &wait, err) < 0)
		return -1;
	record_start(listener, id);
	int result =
		nodejs_session_execute(session, &at, &job->request, caller, call->arena, ret, err);
	nodejs_session_give_back(session);
	if (result < 0 && made && (!job->session_id || !*job->session_id))
		(void)nodejs_session_close(id, NULL); /* nobody has its name */
	return result;
}

/* Before what there is to say already. */
static void put_notice(struct call *call, struct node_result *result, const char *text)
{
	const char *more = result->notice;
	result->notice =
		arena_printf(call->arena, "%s%s%s", text, more ? " " : "", more ? more : "");
}

int nodejs_execute(struct call *call, const struct nodejs_job *job, struct node_result *ret,
		   const char **ret_session, struct err *err)
{
	struct nodejs_execute_listener listener = { .call = call, .job = job };
	struct node_caller caller = { .client_fd = call->sink->client_fd,
				      .stop_fd = server_stop_fd(call->server),
				      .write = job->write ? write_output : NULL,
				      .arg = &listener };
	struct nodejs_job copy = *job;
	struct node_where where;
	*ret_session = NULL;
	listener.job = &copy;
	if (workdir_find(call, "cwd", job->request.cwd, &copy.request.cwd, err) < 0 ||
	    nodejs_programs_pick(call, copy.version, copy.request.typescript, &where, err) < 0)
		return -1;
	int64_t killed = limits_killed();
	if (!copy.stateful)
		record_start(&listener, NULL);
	int result = copy.stateful
			     ? run_in_session(&listener, &where, &caller, ret, ret_session, err)
			     : node_run(&where, &copy.request, &caller, call->arena, ret, err);
	journal_end(listener.run, result < 0 ? "cancelled" : node_status_names[ret->status],
		    result < 0 ? INT_ABSENT : ret->exit_code);
	if (result == 0 && ret->exit_code == 128 + SIGKILL && limits_killed() > killed)
		put_notice(call, ret, LIMITS_STARVED ". " LIMITS_STARVED_HINT);
	if (result == 0 && ret->exit_code == NOT_STARTED &&
	    memmem(ret->err.data, ret->err.len, loader, sizeof loader - 1))
		put_notice(call, ret, not_started);
	return result;
}
