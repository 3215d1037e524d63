#include "hook/hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/wait.h"
#include "config/config.h"
#include "hook/hook_output.h"
#include "journal/journal.h"
#include "net/server.h"
#include "proc/program.h"
#include "proc/tree.h"
#include "proc/user.h"

enum { GRACE_MS = 500 }; /* between SIGTERM and SIGKILL: all of them end together */

struct hook_job {
	const struct hook *hook;
	struct program *program; /* NULL: it could not be started */
	struct hook_output *output;
	struct program_status how;
	enum wake wake; /* what ended the wait for it */
	int64_t began_ms, until_ms;
	char marker[112];
	struct err err; /* why it could not be started */
};

static int start(struct hook_job *job, const struct server *server, struct arena *arena)
{
	const struct user *user = user_sandbox(server->config->user, &job->err);
	int pipe_end = -1;
	if (!user)
		return -1;
	job->output = hook_output_open(job->hook->name, user, &pipe_end, &job->err);
	if (!job->output)
		return -1;
	auto_close int theirs = pipe_end;
	char *argv[] = { (char *)"bash", (char *)"-c", (char *)"--", (char *)job->hook->command,
			 NULL };
	tree_marker(job->marker, sizeof job->marker, "hook");
	struct program_spec program = {
		.spawn = { .path = "/bin/bash",
			   .argv = argv,
			   .cwd = server->config->workspace,
			   .fds = { -1, theirs, theirs } },
		.marker = job->marker,
	};
	spawn_sandboxed(&program.spawn, arena, user, server->home, job->marker, NULL);
	job->program = program_start(&program, &job->err);
	return job->program ? 0 : -1;
}

static void await(struct hook_job *job, const struct wait *wait)
{
	const struct wait own = { job->until_ms < wait->until_ms ? job->until_ms : wait->until_ms,
				  wait->client_fd, wait->stop_fd };
	if (!job->program)
		return;
	job->wake = program_wait(job->program, &own, &job->how);
	if (job->wake != WAKE_READY)
		program_terminate(job->program);
}

/* What is left of one whose time is over, also where it has left its group. */
static void end(struct hook_job *job, int64_t killed_ms)
{
	if (!job->program || job->wake == WAKE_READY)
		return;
	(void)program_wait(job->program, &(struct wait){ killed_ms, -1, -1 }, NULL);
	program_end(job->program, 0, NULL);
}

static const char *status(const struct hook_job *job)
{
	return !job->program                      ? "failed"
	       : job->wake == WAKE_TIMEOUT        ? "timed_out"
	       : job->wake != WAKE_READY          ? "cancelled"
	       : job->how.known && !job->how.code ? "completed"
						  : "failed";
}

/* Whether it has failed. */
static bool report(struct hook_job *job)
{
	char words[JOURNAL_TEXT_MAX] = "";
	const char *how = status(job);
	bool ended = job->program && job->wake == WAKE_READY && job->how.known;
	bool failed = strcmp(how, "completed") != 0;
	if (job->output)
		hook_output_words(job->output, words, sizeof words);
	const struct journal_hook event = {
		.name = job->hook->name,
		.event = job->hook->event,
		.status = how,
		.exit_code = ended ? job->how.code : INT_ABSENT,
		.duration_ms = clock_ms() - job->began_ms,
		.output = job->err.code ? job->err.msg
			  : *words      ? words
					: NULL,
	};
	journal_add(JOURNAL_HOOK_ENDED, &event);
	const struct log_fact facts[] = {
		{ "name", event.name },
		{ "event", event.event },
		{ "status", how },
		{ "ms", NULL, (double)event.duration_ms },
		{ "words", event.output ? event.output : "" },
		{ "exit_code", NULL, ended ? (double)job->how.code : 0 },
	};
	log_event(failed ? LOG_ERROR : LOG_INFO, "hook", facts, ended ? 6 : 5);
	return failed;
}

static int by_deadline(const void *a, const void *b)
{
	const struct hook_job *x = a, *y = b;
	return (x->until_ms > y->until_ms) - (x->until_ms < y->until_ms);
}

size_t hook_run(const struct server *server, const struct hook *hooks, size_t count,
		const struct wait *wait)
{
	struct arena arena = { 0 };
	auto_free struct hook_job *jobs = xcalloc(count + 1, sizeof *jobs);
	size_t failed = 0;
	for (size_t i = 0; i < count; i++) {
		int64_t now_ms = clock_ms();
		jobs[i] = (struct hook_job){ .hook = &hooks[i],
					     .began_ms = now_ms,
					     .until_ms = now_ms + hooks[i].timeout_ms };
		(void)start(&jobs[i], server, &arena);
	}
	qsort(jobs, count, sizeof *jobs, by_deadline); /* so that none is waited for too long */
	for (size_t i = 0; i < count; i++)
		await(&jobs[i], wait);
	int64_t killed_ms = clock_ms() + GRACE_MS;
	for (size_t i = 0; i < count; i++)
		end(&jobs[i], killed_ms);
	for (size_t i = 0; i < count; i++) {
		failed += report(&jobs[i]);
		program_unref(jobs[i].program);
		hook_output_unref(jobs[i].output);
	}
	arena_done(&arena);
	return failed;
}
