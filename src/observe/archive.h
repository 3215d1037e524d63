/* archive.h - writing a .tar.gz: files one after the other, from memory or from a descriptor. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct archive;
struct err;

/* The descriptor stays the caller's. */
struct archive *archive_open(int fd, struct err *err);

/* Names of at most 99 bytes. Errors are kept for archive_close(). */
void archive_add(struct archive *archive, const char *name, const char *data, size_t len);
void archive_add_file(struct archive *archive, const char *name, int fd, int64_t most);

/* Writes the end and frees it. -1 with err if anything could not be written. */
int archive_close(struct archive *archive, struct err *err);
