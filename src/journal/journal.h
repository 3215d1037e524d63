/* journal.h - what happened in this sandbox: a ring of events, bounded by their number and their bytes.
 *
 * Any layer may add an event: that takes microseconds and never waits for a reader. Every text in it is
 * cut and masked (mask.h) on its way in. Numbers rise, over restarts of the server too; a reader that
 * falls behind is told by an event of its own, "lost". */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"

struct arena;

enum { JOURNAL_COUNT_MAX = 2048, JOURNAL_BYTES_MAX = 512 << 10, JOURNAL_TEXT_MAX = 500 };

/* Each kind: its name in C and in JSON, the struct that journal_add() takes, and what it says. */
/* clang-format off */
#define JOURNAL_KINDS(ROW)                                                                          \
	ROW(COMMAND_STARTED, "command_started", command_started, "A command began.")                \
	ROW(COMMAND_ENDED, "command_ended", command_ended, "A command ended.")                      \
	ROW(CODE_STARTED, "code_started", code_started, "An execution of code began.")              \
	ROW(CODE_ENDED, "code_ended", code_ended, "An execution of code ended.")                    \
	ROW(FILE_WRITTEN, "file_written", file_written, "A file was written through the API.")      \
	ROW(TOOL_CALLED, "tool_called", tool_called,                                                \
	    "An MCP tool was called, and has answered. What it did in the sandbox has events of its own.") \
	ROW(SESSION_OPENED, "session_opened", session, "A session was made.")                       \
	ROW(SESSION_CLOSED, "session_closed", session, "A session was ended, or had been idle for too long.") \
	ROW(SERVICE_CHANGED, "service_changed", service,                                            \
	    "A service was started, is ready, was stopped or has ended, or could not be started.")  \
	ROW(PAGE_SHOWN, "page_shown", page, "The browser showed another page in a tab.")            \
	ROW(HOOK_ENDED, "hook_ended", hook, "A hook was run, when the sandbox started or ended.")     \
	ROW(PORT_OPENED, "port_opened", port, "A program listens on a port.")                       \
	ROW(PORT_CLOSED, "port_closed", port, "No program listens there any more.")                 \
	ROW(GUARDRAIL_TRIPPED, "guardrail_tripped", guardrail, "A rule of guardrail mode was met.")   \
	ROW(LOST, "lost", lost,                                                                     \
	    "Events that were asked for are not kept any more: others came after them, or the server was restarted.")
/* clang-format on */

enum journal_kind {
#define JOURNAL_ENUM(id, name, of, help) JOURNAL_##id,
	JOURNAL_KINDS(JOURNAL_ENUM)
#undef JOURNAL_ENUM
		JOURNAL_KIND_COUNT
};
enum { JOURNAL_ALL = (1u << JOURNAL_KIND_COUNT) - 1 };
/* What a kind says, by its name. */
const char *journal_help(const char *kind);
extern const char *const journal_names[]; /* by kind; ends with NULL */
extern const struct schema journal_event_schema;

struct journal_file {
	const char *path, *operation;
	int64_t bytes; /* written; INT_ABSENT where that says nothing */
};
struct journal_tool {
	const char *server, *tool;
	bool failed;
	int64_t duration_ms;
};
struct journal_hook {
	const char *name, *event, *status, *output; /* output may be NULL */
	int64_t exit_code, duration_ms;             /* exit_code may be INT_ABSENT */
};
struct journal_guardrail {
	const char *rule, *message, *session_id, *report_id; /* report_id may be NULL */
};
struct journal_session {
	const char *kind, *session_id;
};
struct journal_service {
	const char *name, *state, *reason; /* reason may be NULL */
};
struct journal_page {
	const char *url, *tab;
	bool failed;
};

struct journal_port {
	int64_t port;
	const char *address;
	int64_t pid;         /* INT_ABSENT where that is not known */
	const char *command; /* NULL likewise */
};

/* Adds an event: FILE_WRITTEN, TOOL_CALLED, SESSION_OPENED, SESSION_CLOSED, SERVICE_CHANGED, PAGE_SHOWN,
 * PORT_OPENED or PORT_CLOSED, with its struct. */
void journal_add(enum journal_kind kind, const void *event);

/* What runs has two events. journal_begin() adds COMMAND_STARTED or CODE_STARTED and returns what
 * journal_end() takes, to add the other one. */
struct journal_run;
struct journal_started {
	const char *by;                      /* "bash", "shell", "exec"; the language of code */
	const char *session_id, *command_id; /* may be NULL */
	struct text text;
	int64_t began_us; /* of clock_us(); 0: now */
};
struct journal_run *journal_begin(enum journal_kind kind, const struct journal_started *what);
void journal_end(struct journal_run *run, const char *status, int64_t exit_code); /* NULL is fine */

/* One who reads. */
struct journal_reader {
	int64_t after;  /* the number of the last event that it has; -1: none, and none is missed */
	unsigned kinds; /* 1 << kind for each that is wanted; "lost" always is */
	int64_t since_ms; /* of the real time: nothing older */
	int fd;           /* an eventfd, signalled once there is more than was read */
	bool asleep;
	struct journal_reader *next;
};
struct journal_item {
	int64_t seq;
	const char *kind;
	struct text json; /* as journal_event_schema describes it */
};

/* Reads on: at most `most` bytes of items (one in any case), in the arena, and how many. None: wait. */
size_t journal_read(struct journal_reader *reader, struct arena *arena, size_t most,
		    struct journal_item **ret);

/* Between the two, its fd is signalled. */
void journal_join(struct journal_reader *reader);
void journal_leave(struct journal_reader *reader);
