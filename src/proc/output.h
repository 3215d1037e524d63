/* output.h - all bytes that a stream gave, addressed by their offset: in memory while few, then in
 * a file without a name. The caller has a lock around all of it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

enum { OUTPUT_MEMORY_MAX = 256 * 1024 };
#define OUTPUT_MAX ((int64_t)1 << 30)

struct output {
	struct buf memory;
	int fd;       /* of the file; -1: none yet */
	int64_t size; /* bytes kept: offsets go from 0 to here */
	int64_t lost; /* bytes beyond what is kept */
};

#define OUTPUT ((struct output){ .fd = -1 }) /* an empty one */

void output_done(struct output *output);

/* Appends; what is beyond OUTPUT_MAX, or does not fit on the disk, is counted as lost. */
void output_add(struct output *output, const char *data, size_t len);

/* Reads at most room bytes from an offset: how many. */
size_t output_read(const struct output *output, int64_t offset, char *to, size_t room);
