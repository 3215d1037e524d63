/* regular.h - reading regular files, and nothing that could block, never end, or do something when it
 * is opened: no FIFO, no device, no socket. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct buf;
struct err;

/* 0 for a regular file. Else -1: EISDIR, or ERR_BAD_REQUEST with what it is instead. */
int regular_check(const char *path, const struct stat *st, struct err *err);

/* Opens a regular file for reading: its descriptor, and what it is in ret (which may be NULL). */
int regular_open(const char *path, struct stat *ret, struct err *err);

/* Reads all from the descriptor's position to the end, whatever size the file says it has: the files
 * of /proc say none. ERR_TOO_LARGE beyond the buffer's cap. The buffer has data then, be it "". */
int regular_read(int fd, struct buf *to, struct err *err);

/* Reads at an offset: how much, less than room only at the end. -1 with err. */
ssize_t regular_read_at(int fd, int64_t at, char *to, size_t room, struct err *err);
