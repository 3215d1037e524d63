/* node_files.h - the directory in which a program runs, and the files that came with it. Everything
 * is done as the user. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

struct err;
struct list;
struct user;

/* Makes a new directory. */
int node_files_dir(const struct user *user, char *to, size_t room, struct err *err);

/* Writes files (struct pair: relative path, content), with the directories that they are in. */
int node_files_write(const struct user *user, const char *dir, const struct list *files,
		     struct err *err);

/* Removes what a process that was killed could not: see share/node/run.cjs. */
void node_files_forget(const struct user *user, const char *dir, pid_t pid);

/* Removes a directory with all that is in it. */
void node_files_remove(const struct user *user, const char *dir);
