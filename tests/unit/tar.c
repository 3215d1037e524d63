/* Archives: what is written is read again, whatever its names; and names and links that lead elsewhere. */
#include "cli/tar.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/copy_in.h"
#include "tap.h"

static ssize_t take(void *arg, void *to, size_t room, struct err *err)
{
	(void)err;
	return read(*(int *)arg, to, room < 700 ? room : 700); /* in pieces */
}

static struct tar_entry *entry_of(enum tar_type type, size_t name, size_t link, int64_t size)
{
	struct tar_entry *entry = xcalloc(1, sizeof *entry);
	entry->type = type;
	memset(entry->name, '\xff', name);
	memset(entry->link, '\n', link);
	entry->size = size;
	entry->mode = 0640;
	entry->mtime = 1234567890;
	return entry;
}

static bool is_same(const struct tar_entry *a, const struct tar_entry *b)
{
	return a->type == b->type && a->size == b->size && a->mode == b->mode &&
	       a->mtime == b->mtime && !strcmp(a->name, b->name) && !strcmp(a->link, b->link);
}

static void there_and_back(void)
{
	static const struct {
		enum tar_type type;
		size_t name, link;
		int64_t size;
	} rows[] = {
		{ TAR_FILE, 1, 0, 0 },        { TAR_FILE, 99, 0, 511 },
		{ TAR_FILE, 100, 0, 512 },    { TAR_FILE, 101, 0, 513 },
		{ TAR_DIR, 4000, 0, 0 },      { TAR_SYMLINK, 5, 100, 0 },
		{ TAR_SYMLINK, 300, 101, 0 }, { TAR_LINK, 512, 4000, 0 },
		{ TAR_FILE, 511, 0, 100000 },
	};
	int fd = memfd_create("tar", MFD_CLOEXEC);
	char *content = xcalloc(200000, 1);
	struct tar_in in = { .read = take, .arg = &fd };
	auto_free struct tar_entry *got = xcalloc(1, sizeof *got);
	struct err err = { 0 };
	memset(content, 'x', 100000);
	for (size_t i = 0; i < COUNT(rows); i++) {
		auto_free struct tar_entry *entry =
			entry_of(rows[i].type, rows[i].name, rows[i].link, rows[i].size);
		CHECK(tar_write_header(fd, entry, &err) == 0);
		CHECK(tar_write(fd, content, (size_t)rows[i].size, &err) == 0);
		CHECK(tar_write(fd, content + 100000, tar_pad(rows[i].size), &err) == 0);
	}
	CHECK(tar_write(fd, content + 100000, TAR_END, &err) == 0);
	(void)lseek(fd, 0, SEEK_SET);
	for (size_t i = 0; i < COUNT(rows); i++) {
		auto_free struct tar_entry *entry =
			entry_of(rows[i].type, rows[i].name, rows[i].link, rows[i].size);
		CHECK(tar_next(&in, got, &err) == 1 && is_same(got, entry));
		if (i % 2) /* the others are passed over */
			CHECK(tar_read(&in, content, 1, &err) == (rows[i].size > 0));
	}
	CHECK(tar_next(&in, got, &err) == 0);
	free(content);
	close(fd);
}

/* A file of 20 GB, of which there is only the header. */
static void large(void)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);
	struct tar_in in = { .read = take, .arg = &fd };
	struct err err = { 0 };
	auto_free struct tar_entry *entry = entry_of(TAR_FILE, 3, 0, 20000000000);
	auto_free struct tar_entry *got = xcalloc(1, sizeof *got);
	CHECK(tar_write_header(fd, entry, &err) == 0);
	(void)lseek(fd, 0, SEEK_SET);
	CHECK(tar_next(&in, got, &err) == 1 && is_same(got, entry));
	CHECK(tar_next(&in, got, &err) == -1 && strstr(err.msg, "cut off"));
	close(fd);
}

static void names(void)
{
	static const struct {
		const char *name, *want; /* NULL: refused */
		int depth;
	} rows[] = {
		{ "./", "", 0 },
		{ ".", "", 0 },
		{ "./a", "a", 0 },
		{ "a/b", "a/b", 1 },
		{ "./a/b/c/", "a/b/c", 2 },
		{ ".//a", "a", 0 },
		{ "...", "...", 0 },
		{ "..a", "..a", 0 },
		{ "a/..b", "a/..b", 1 },
		{ "..", NULL, 0 },
		{ "../a", NULL, 0 },
		{ "a/..", NULL, 0 },
		{ "a/../b", NULL, 0 },
		{ "/a", NULL, 0 },
		{ "//a", NULL, 0 },
		{ "a//b", NULL, 0 },
		{ "a/./b", NULL, 0 },
		{ "a/.", NULL, 0 },
		{ "./..", NULL, 0 },
		{ "././../a", NULL, 0 },
		{ ".//../a", NULL, 0 },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		int depth = 0;
		auto_free char *name = xstrdup(rows[i].name);
		const char *got = copy_in_name(name, &depth);
		if (!CHECK(rows[i].want
				   ? got && !strcmp(got, rows[i].want) && depth == rows[i].depth
				   : !got))
			printf("# of '%s'\n", rows[i].name);
	}
}

static void links(void)
{
	static const struct {
		const char *link;
		int depth;
		bool stays;
	} rows[] = {
		{ "a", 0, true },       { "a/b", 0, true },         { "..", 0, false },
		{ "..", 1, true },      { "../a", 1, true },        { "../..", 1, false },
		{ "../../a", 2, true }, { "..//..", 1, false },     { "..///../a", 2, true },
		{ "a/..", 1, false },   { "a/../b", 5, false },     { "../a/..", 5, false },
		{ "./..", 5, false },   { "/a", 5, false },         { "", 5, false },
		{ "...", 0, true },     { "..a", 0, true },         { "a../b..", 0, true },
		{ "a/...", 0, true },   { "a/.../../b", 5, false }, { "..a/..", 5, false },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!CHECK(copy_in_stays(rows[i].link, rows[i].depth) == rows[i].stays))
			printf("# of '%s' at %d\n", rows[i].link, rows[i].depth);
}

int main(void)
{
	there_and_back();
	large();
	names();
	links();
	return tap_done();
}
