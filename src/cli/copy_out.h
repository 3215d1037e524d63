/* copy_out.h - files of this machine as an archive for a sandbox. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct copy_notes;
struct err;

struct copy_out {
	const char *path; /* followed where it is a symbolic link; what is below it is not */
	const char *name; /* of a file, in the archive */
	bool contents;    /* of a directory: without its own mode and time */
	bool directory;
	int64_t total; /* bytes, about */
};

/* Looks what there is at the path, and how much. */
int copy_out_find(struct copy_out *out, struct err *err);

/* Writes it. What cannot be read is noted, and the rest goes on. */
int copy_out_write(const struct copy_out *out, int fd, struct copy_notes *notes, struct err *err);
