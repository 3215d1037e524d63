#include "fs/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

static bool yes(void *arg)
{
	++*(int *)arg;
	return true;
}

static bool no(void *arg)
{
	(void)arg;
	return false;
}

static int file_of(const char *text, size_t len)
{
	int fd = memfd_create("lines", MFD_CLOEXEC);
	CHECK(write(fd, text, len) == (ssize_t)len);
	return fd;
}

static void check(const char *text, size_t len, int64_t first, int64_t last, struct lines want)
{
	struct lines got;
	int asked = 0, fd = file_of(text, len);
	CHECK(lines_find(fd, first, last, yes, &asked, &got, NULL) == 0);
	if (!CHECK(got.start == want.start && got.end == want.end && got.count == want.count &&
		   got.seen == want.seen))
		printf("# [%lld, %lld) of %zu bytes: %lld-%lld, %lld, %lld\n", (long long)first,
		       (long long)last, len, (long long)got.start, (long long)got.end,
		       (long long)got.count, (long long)got.seen);
	close(fd);
}
#define LINES(text, first, last, ...) \
	check(text, sizeof(text) - 1, first, last, (struct lines){ __VA_ARGS__ })

static void small(void)
{
	LINES("", 0, INT64_MAX, 0, 0, 0, 0);
	LINES("", 3, INT64_MAX, 0, 0, 0, 0);
	LINES("a\nb\nc", 0, INT64_MAX, 0, 5, 3, 3);
	LINES("a\nb\nc\n", 0, INT64_MAX, 0, 6, 3, 3);
	LINES("a\nb\nc\n", 1, 2, 2, 4, 1, 2);
	LINES("a\nb\nc", 2, 3, 4, 5, 1, 3);
	LINES("a\nb\nc", 2, 9, 4, 5, 1, 3);
	LINES("a\nb\nc", 3, 9, 5, 5, 0, 3);
	LINES("a\nb\nc\n", 3, 9, 6, 6, 0, 3);
	LINES("a\nb\nc\n", 9, 10, 6, 6, 0, 3);
	LINES("a\nb\n", 1, 1, 2, 2, 0, 1);
	LINES("a\nb\n", 0, 0, 0, 0, 0, 0);
	LINES("\n\n", 1, 2, 1, 2, 1, 2);
}

/* Longer than one piece, with characters across the edges of pieces. */
static void large(void)
{
	enum { COUNT_OF = 200000, UNIT = 5 };
	char *text = malloc(COUNT_OF * UNIT + 3);
	for (int shift = 0; shift < 3; shift++) {
		memset(text, 'x', (size_t)shift);
		for (int i = 0; i < COUNT_OF; i++)
			memcpy(text + shift + i * UNIT,
			       i % 10 ? "\xe2\x82\xac\xc3\xa4" : "\xe2\x82\xac.\n", UNIT);
		int64_t size = shift + COUNT_OF * UNIT;
		check(text, (size_t)size, 0, INT64_MAX,
		      (struct lines){ 0, size, COUNT_OF / 10 + 1, COUNT_OF / 10 + 1 });
		check(text, (size_t)size, 15000, 15001,
		      (struct lines){ shift + 14999 * 50 + 5, shift + 15000 * 50 + 5, 1, 15001 });
	}
	memset(text, '\n', 131072 * 2);
	check(text, 131072 * 2, 131072, INT64_MAX,
	      (struct lines){ 131072, 262144, 131072, 262144 });
	free(text);
}

static void wrong(void)
{
	struct lines got;
	struct err err = { 0 };
	int asked = 0, fd = file_of("ok\nb\xff\nok\nend\xe2\x82", 15);
	CHECK(lines_find(fd, 0, INT64_MAX, yes, &asked, &got, &err) < 0 && err.code == EILSEQ);
	CHECK(strstr(err.msg, "0xff in position 4") != NULL);
	CHECK(lines_find(fd, 2, 3, yes, &asked, &got, &err) == 0 && got.start == 6 && got.end == 9);
	CHECK(lines_find(fd, 3, 4, yes, &asked, &got, &err) < 0 && err.code == EILSEQ);
	CHECK(strstr(err.msg, "0xe2 in position 12") != NULL);
	CHECK(asked == 0);
	CHECK(ftruncate(fd, 64 << 20) == 0);
	CHECK(lines_find(fd, 9, 10, yes, &asked, &got, &err) == 0 && asked > 2 && asked < 20);
	CHECK(lines_find(fd, 9, 10, no, NULL, &got, &err) < 0 && err.code == ERR_GONE);
	close(fd);
}

int main(void)
{
	small();
	large();
	wrong();
	return tap_done();
}
