#include "observe/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "base/own.h"

enum { BLOCK = 512, PIECE = 65536 };

struct archive {
	gzFile file;
	bool failed;
	int code; /* errno of the first failure */
};

/* POSIX.1-1988. */
struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100],
		magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_head) == BLOCK, "a header is one block");

struct archive *archive_open(int fd, struct err *err)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	gzFile file = copy < 0 ? NULL : gzdopen(copy, "wb6");
	if (!file) {
		err_set(err, copy < 0 ? errno : ERR_UNAVAILABLE, "no descriptor for an archive");
		own_close(&copy);
		return NULL;
	}
	struct archive *archive = xcalloc(1, sizeof *archive);
	archive->file = file;
	return archive;
}

static void put(struct archive *archive, const void *data, size_t len)
{
	errno = 0;
	if (!len || archive->failed || gzwrite(archive->file, data, (unsigned)len) == (int)len)
		return;
	archive->failed = true;
	archive->code = errno;
}

static void put_head(struct archive *archive, const char *name, int64_t size)
{
	struct tar_head head = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	snprintf(head.name, sizeof head.name, "%s", name);
	snprintf(head.mode, sizeof head.mode, "%07o", 0644);
	snprintf(head.uid, sizeof head.uid, "%07o", 0);
	snprintf(head.gid, sizeof head.gid, "%07o", 0);
	snprintf(head.size, sizeof head.size, "%011llo", (unsigned long long)size);
	snprintf(head.mtime, sizeof head.mtime, "%011llo", (unsigned long long)time(NULL));
	memset(head.sum, ' ', sizeof head.sum);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof head; i++)
		sum += ((const unsigned char *)&head)[i];
	snprintf(head.sum, sizeof head.sum, "%06o", sum);
	put(archive, &head, sizeof head);
}

static void put_zeros(struct archive *archive, int64_t count)
{
	static const char zeros[BLOCK];
	for (; count > 0; count -= BLOCK)
		put(archive, zeros, count < BLOCK ? (size_t)count : BLOCK);
}

void archive_add(struct archive *archive, const char *name, const char *data, size_t len)
{
	put_head(archive, name, (int64_t)len);
	put(archive, data, len);
	put_zeros(archive, (int64_t)((BLOCK - len % BLOCK) % BLOCK));
}

/* Of the size that it has now: what grows or shrinks meanwhile is cut or filled up. */
void archive_add_file(struct archive *archive, const char *name, int fd, int64_t most)
{
	struct stat st;
	auto_free char *piece = xmalloc(PIECE);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	int64_t size = st.st_size < most ? st.st_size : most, at = 0;
	put_head(archive, name, size);
	while (at < size && !archive->failed) {
		size_t want = size - at < PIECE ? (size_t)(size - at) : PIECE;
		ssize_t n = pread(fd, piece, want, at);
		if (n <= 0)
			break;
		put(archive, piece, (size_t)n);
		at += n;
	}
	put_zeros(archive, size - at);
	put_zeros(archive, (BLOCK - size % BLOCK) % BLOCK);
}

int archive_close(struct archive *archive, struct err *err)
{
	put_zeros(archive, 2 * (int64_t)BLOCK);
	errno = 0;
	bool closed = gzclose(archive->file) == Z_OK;
	int code = archive->failed ? archive->code : errno;
	bool failed = archive->failed || !closed;
	free(archive);
	return failed ? err_set(err, code ? code : EIO, "writing a report") : 0;
}
