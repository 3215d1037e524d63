#include "host/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/files.h"
#include "host/layer.h"

enum { UID_LAST = 65534 };

/* ---- the library: loaded, not linked ---- */

/* clang-format off */
#define FUNCTIONS(f)                                                                            \
	f(read_new) f(read_open_fd) f(read_next_header) f(read_data_block) f(read_free)          \
	f(read_support_filter_gzip) f(read_support_filter_bzip2) f(read_support_filter_xz)       \
	f(read_support_filter_lzma) f(read_support_filter_zstd) f(read_support_filter_lz4)       \
	f(read_support_filter_compress) f(read_support_format_tar) f(error_string)               \
	f(write_disk_new) f(write_disk_set_options) f(write_header) f(write_data_block)          \
	f(write_finish_entry) f(write_free)                                                      \
	f(entry_pathname) f(entry_set_pathname) f(entry_hardlink) f(entry_set_hardlink)          \
	f(entry_filetype) f(entry_size) f(entry_uid) f(entry_gid) f(entry_set_uid)               \
	f(entry_set_gid) f(entry_xattr_reset) f(entry_xattr_next) f(entry_xattr_clear)           \
	f(entry_xattr_add_entry)
/* clang-format on */

static struct {
#define MEMBER(name) __typeof__(&archive_##name) name; /* NOLINT(bugprone-macro-parentheses) */
	FUNCTIONS(MEMBER)
} lib;

/* The compressions that are undone in this process. libarchive has more, and some for which it runs a
 * program, which it would find in the image. */
static struct unpack_filter {
	const char *name;
	int (**support)(struct archive *archive);
	bool usable;
} filters[] = {
	{ "gzip", &lib.read_support_filter_gzip, false },
	{ "bzip2", &lib.read_support_filter_bzip2, false },
	{ "xz", &lib.read_support_filter_xz, false },
	{ "lzma", &lib.read_support_filter_lzma, false },
	{ "zstd", &lib.read_support_filter_zstd, false },
	{ "lz4", &lib.read_support_filter_lz4, false },
	{ "compress", &lib.read_support_filter_compress, false },
};

/* A library that was built without one of them answers that it uses an external program. */
static void find_filters(void)
{
	for (size_t i = 0; i < COUNT(filters); i++) {
		struct archive *probe = lib.read_new();
		filters[i].usable = (*filters[i].support)(probe) == ARCHIVE_OK;
		lib.read_free(probe);
	}
}

int unpack_load(struct err *err)
{
	static const struct {
		const char *name;
		size_t at;
	} rows[] = {
#define ROW(name) { "archive_" #name, offsetof(__typeof__(lib), name) },
		FUNCTIONS(ROW)
	};
	void *library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, ERR_UNAVAILABLE, "%s (Debian: libarchive13)", dlerror());
	for (size_t i = 0; i < COUNT(rows); i++) {
		void *symbol = dlsym(library, rows[i].name);
		if (!symbol)
			return err_set(err, ERR_UNAVAILABLE, "%s", dlerror());
		memcpy((char *)&lib + rows[i].at, &symbol, sizeof symbol);
	}
	find_filters();
	return 0;
}

/* ---- one entry ---- */

/* Attributes that mean something to an overlay or to the machine are not an archive's to set. */
static void filter_attributes(struct archive_entry *entry)
{
	struct unpack_kept {
		char *name;
		void *value;
		size_t size;
	} kept[64];
	size_t count = 0, size;
	const char *name;
	const void *value;
	lib.entry_xattr_reset(entry);
	while (count < COUNT(kept) &&
	       lib.entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		if (strcmp(name, "security.capability") != 0 &&
		    (strncmp(name, "user.", 5) != 0 || !strncmp(name, "user.overlay.", 13)))
			continue;
		kept[count] = (struct unpack_kept){ xstrdup(name), xmalloc(size + 1), size };
		memcpy(kept[count++].value, value, size);
	}
	lib.entry_xattr_clear(entry);
	for (size_t i = 0; i < count; i++) {
		lib.entry_xattr_add_entry(entry, kept[i].name, kept[i].value, kept[i].size);
		free(kept[i].name);
		free(kept[i].value);
	}
}

/* A layer's file takes the place of a directory, with all in it, and a directory that of a link. */
static int make_room(const char *path, bool is_dir, struct err *err)
{
	struct stat st;
	if (lstat(path, &st) < 0 || S_ISDIR(st.st_mode) == is_dir)
		return 0;
	return is_dir ? (unlink(path) < 0 ? err_set(err, errno, "'%.200s'", path) : 0)
		      : files_remove(path, err);
}

static int remove_opaque(const char *path, struct err *err)
{
	struct stat st;
	if (!*path || lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (files_remove(path, err) < 0)
		return -1;
	return mkdir(path, st.st_mode & 07777) < 0 || lchown(path, st.st_uid, st.st_gid) < 0
		       ? err_set(err, errno, "mkdir '%.200s'", path)
		       : 0;
}

static int copy_data(struct archive *from, struct archive *to, const char *path, struct err *err)
{
	const void *data;
	size_t size;
	la_int64_t at;
	int got;
	while ((got = lib.read_data_block(from, &data, &size, &at)) == ARCHIVE_OK)
		if (lib.write_data_block(to, data, size, at) < ARCHIVE_OK)
			return err_set(err, ERR_INVALID, "'%.200s': %s", path,
				       lib.error_string(to));
	return got == ARCHIVE_EOF || got == ARCHIVE_WARN
		       ? 0
		       : err_set(err, ERR_INVALID, "the archive is damaged at '%.200s': %s", path,
				 lib.error_string(from));
}

/* The target of a hard link is a name in the archive too. */
static int clean_link(struct archive_entry *entry, struct err *err)
{
	char target[PATH_MAX];
	const char *name = lib.entry_hardlink(entry);
	if (name && layer_path(name, target, err) < 0)
		return -1;
	if (name)
		lib.entry_set_hardlink(entry, target);
	return 0;
}

static int write_entry(struct archive *from, struct archive *to, struct archive_entry *entry,
		       const char *path, bool layer, struct err *err)
{
	unsigned type = lib.entry_filetype(entry);
	bool link = lib.entry_hardlink(entry) != NULL;
	if (!link && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
		return 0;
	if (lib.entry_uid(entry) < 0 || lib.entry_uid(entry) > UID_LAST)
		lib.entry_set_uid(entry, UID_LAST);
	if (lib.entry_gid(entry) < 0 || lib.entry_gid(entry) > UID_LAST)
		lib.entry_set_gid(entry, UID_LAST);
	filter_attributes(entry);
	if (clean_link(entry, err) < 0 ||
	    (layer && make_room(path, !link && type == AE_IFDIR, err) < 0))
		return -1;
	lib.entry_set_pathname(entry, path);
	if (lib.write_header(to, entry) < ARCHIVE_WARN)
		return err_set(err, ERR_INVALID, "'%.200s': %s", path, lib.error_string(to));
	if (copy_data(from, to, path, err) < 0)
		return -1;
	return lib.write_finish_entry(to) < ARCHIVE_WARN
		       ? err_set(err, ERR_INVALID, "'%.200s': %s", path, lib.error_string(to))
		       : 0;
}

/* ---- all of them ---- */

/* An archive is gone through once for its whiteouts, which are for the layers below, wherever they
 * stand in it, and once for its files. */
struct pass {
	struct archive *from, *to;
	bool layer, whiteouts;
	struct unpack_room room;
};

/* By the size that the entry has when it is unpacked, holes too: more than that is never written. */
static int count_entry(struct pass *pass, struct archive_entry *entry, struct err *err)
{
	int64_t size = lib.entry_size(entry);
	pass->room.entries--;
	if (pass->room.entries < 0)
		return err_set(err, ERR_TOO_LARGE,
			       "the image has too many files (or the disk too few inodes)");
	if (size > pass->room.bytes)
		return err_set(err, ERR_TOO_LARGE,
			       "the image is larger than --import-size, or than what the disk has "
			       "room for, when it is unpacked");
	pass->room.bytes -= size > 0 ? size : 0;
	return 0;
}

static int take_entry(struct pass *pass, struct archive_entry *entry, struct err *err)
{
	char path[PATH_MAX];
	enum layer_kind kind;
	const char *name = lib.entry_pathname(entry);
	if (count_entry(pass, entry, err) < 0)
		return -1;
	if (!name)
		return 0;
	if (layer_entry(name, pass->layer, path, &kind, err) < 0)
		return -1;
	if (kind == LAYER_FILE)
		return pass->whiteouts
			       ? 0
			       : write_entry(pass->from, pass->to, entry, path, pass->layer, err);
	if (kind == LAYER_NOTHING || !pass->whiteouts)
		return 0;
	if (kind == LAYER_OPAQUE)
		return remove_opaque(path, err);
	return unlink(path) < 0 && errno == EISDIR ? files_remove(path, err) : 0;
}

static int not_an_archive(struct archive *from, struct err *err)
{
	char names[128] = "";
	for (size_t i = 0, len = 0; i < COUNT(filters); i++)
		if (filters[i].usable)
			len += (size_t)snprintf(names + len, sizeof names - len, "%s%s",
						len ? ", " : "", filters[i].name);
	return err_set(err, ERR_INVALID,
		       "not a tar archive, plain or compressed with one of %s: %s", names,
		       lib.error_string(from));
}

static int take_all(struct pass *pass, struct err *err)
{
	struct archive_entry *entry = NULL;
	bool any = false;
	int got;
	while ((got = lib.read_next_header(pass->from, &entry)) == ARCHIVE_OK ||
	       got == ARCHIVE_WARN) {
		any = true;
		if (take_entry(pass, entry, err) < 0)
			return -1;
	}
	if (got == ARCHIVE_EOF)
		return 0;
	return any ? err_set(err, ERR_INVALID, "the archive is damaged: %s",
			     lib.error_string(pass->from))
		   : not_an_archive(pass->from, err);
}

static int run_pass(int fd, struct pass *pass, struct err *err)
{
	pass->from = lib.read_new();
	pass->to = lib.write_disk_new();
	for (size_t i = 0; i < COUNT(filters); i++)
		if (filters[i].usable)
			(*filters[i].support)(pass->from);
	lib.read_support_format_tar(pass->from);
	lib.write_disk_set_options(pass->to, ARCHIVE_EXTRACT_OWNER | ARCHIVE_EXTRACT_PERM |
						     ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_XATTR |
						     ARCHIVE_EXTRACT_UNLINK |
						     ARCHIVE_EXTRACT_SECURE_NODOTDOT);
	int result = 0;
	if (lseek(fd, 0, SEEK_SET) < 0 || lib.read_open_fd(pass->from, fd, 65536) != ARCHIVE_OK)
		result = not_an_archive(pass->from, err);
	if (result == 0)
		result = take_all(pass, err);
	lib.write_free(pass->to); /* directories get their modes and times here */
	lib.read_free(pass->from);
	return result;
}

int unpack(int fd, bool layer, struct unpack_room *room, struct err *err)
{
	struct pass first = { .layer = true, .whiteouts = true, .room = *room };
	struct pass second = { .layer = layer, .room = *room };
	if (layer && run_pass(fd, &first, err) < 0)
		return -1;
	int result = run_pass(fd, &second, err);
	*room = second.room;
	return result;
}
