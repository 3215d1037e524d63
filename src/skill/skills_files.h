/* skills_files.h - directories for skills: made, read and removed, link by link. For skills.c. */
#pragma once
#include "base/buf.h"

struct err;

/* Makes a directory and those above it. */
int skills_files_make(const char *path, struct err *err);

/* Reads a regular file of at most cap bytes below a directory; ENOENT where there is none. */
int skills_files_read(int dir, const char *name, struct buf *ret, struct err *err);

/* Removes an entry of a directory with all that is in it, following no link. */
int skills_files_remove(int dir, const char *name, struct err *err);

/* A new, empty directory below dir whose name begins with a dot: its name. */
int skills_files_stage(int dir, char *ret, size_t room, struct err *err);
