/* tar.h - tar archives as streams: GNU's form with long names, which every tar reads; read also ustar and pax. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { TAR_NAME_MAX = 65536 };

enum tar_type { TAR_FILE = '0', TAR_LINK = '1', TAR_SYMLINK = '2', TAR_DIR = '5', TAR_OTHER = '?' };

struct tar_entry {
	enum tar_type type;
	char name[TAR_NAME_MAX], link[TAR_NAME_MAX]; /* any bytes but NUL */
	int64_t size;                                /* of the content that follows */
	unsigned mode;
	int64_t mtime;
};

/* ---- reading what may be hostile ---- */

struct tar_in {
	/* Some bytes: how many, 0 at the end, -1 with err. */
	ssize_t (*read)(void *arg, void *to, size_t room, struct err *err);
	void *arg;
	int64_t left; /* of the content of the entry */
	unsigned pad; /* behind it */
};

/* The next entry; the rest of the last one is passed over. 1; 0 at the end of the archive; -1: what it is, or that it
 * is cut off. */
int tar_next(struct tar_in *in, struct tar_entry *ret, struct err *err);

/* Some of its content: how much, 0 at its end, -1. */
ssize_t tar_read(struct tar_in *in, void *to, size_t room, struct err *err);

/* ---- writing ---- */

/* The header of an entry. Its content follows, and tar_pad(size) of zeros; at the end of all, TAR_END zeros. */
enum { TAR_END = 1024 };
int tar_write_header(int fd, const struct tar_entry *entry, struct err *err);
int tar_write(int fd, const void *data, size_t len, struct err *err);

static inline unsigned tar_pad(int64_t size)
{
	return (unsigned)(-(uint64_t)size & 511);
}
