/* shell_events.h - a shell's command as it happens: the events start, output and exit. */
#pragma once
#include <stdint.h>

struct call;
struct err;
struct schema;
struct shell;
struct shell_command;

extern const struct schema shell_events_sends; /* of a route that does this */

/* Sends them until the command has ended or the moment (of clock_ms()) has come. -1: the caller left,
 * and the command runs on. */
int shell_events_stream(struct call *call, struct shell *shell, struct shell_command *command,
			int64_t until_ms, struct err *err);
