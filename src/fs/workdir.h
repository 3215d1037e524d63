/* workdir.h - the directory that a request names for its program to run in: cwd, exec_dir, working_dir. */
#pragma once

struct call;
struct err;

/* Sees that it is an absolute path of a directory that the sandbox user can reach, and gives it; NULL where
 * none is named. `name` is what the request calls it. /workspace, which clients of AIO Sandbox name, is the
 * configured workspace where there is no such directory, and so is what is below it. */
int workdir_find(struct call *call, const char *name, const char *given, const char **ret,
		 struct err *err);
