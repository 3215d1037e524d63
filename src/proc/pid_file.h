/* pid_file.h - programs that outlive the process that started them, found again by a file with their pid.
 *
 * Pids are reused, so the arguments of such a program must also contain a text that is its own. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Whether the process whose pid is first in the file runs, with `named` in its arguments. */
bool pid_file_runs(const char *path, const char *named);

/* Kills it if it does, and waits until it has ended, 10 s at most. */
void pid_file_kill(const char *path, const char *named);
