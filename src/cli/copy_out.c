#include "cli/copy_out.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/copy_notes.h"
#include "cli/tar.h"

enum { PIECE = 1 << 16 };

/* ---- what there is ---- */

static FTS *open_tree(const char *path)
{
	char *paths[] = { (char *)path, NULL };
	return fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
}

int copy_out_find(struct copy_out *out, struct err *err)
{
	struct stat st;
	if (stat(out->path, &st) < 0)
		return err_set(err, errno, "'%s'", out->path);
	out->directory = S_ISDIR(st.st_mode);
	out->total = st.st_size;
	if (S_ISREG(st.st_mode))
		return 0;
	if (!out->directory)
		return err_set(err, ERR_BAD_REQUEST, "'%s' is neither a file nor a directory",
			       out->path);
	FTS *tree = open_tree(out->path);
	if (!tree)
		return err_set(err, errno, "'%s'", out->path);
	out->total = 0;
	for (FTSENT *at; (at = fts_read(tree));)
		out->total += 512 + (at->fts_info == FTS_F ? at->fts_statp->st_size : 0);
	fts_close(tree);
	return 0;
}

/* ---- what is sent ---- */

static int put_zeros(int fd, int64_t count, struct err *err)
{
	static const char zeros[PIECE];
	while (count > 0) {
		size_t n = count < PIECE ? (size_t)count : PIECE;
		if (tar_write(fd, zeros, n, err) < 0)
			return -1;
		count -= (int64_t)n;
	}
	return 0;
}

/* As long as the header has said: zeros stand for what is missing. */
static int put_content(int from, int to, const char *path, int64_t size, struct copy_notes *notes,
		       struct err *err)
{
	auto_free char *piece = xmalloc(PIECE);
	while (size > 0) {
		ssize_t n = read(from, piece, size < PIECE ? (size_t)size : PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			copy_note(notes, path,
				  n < 0 ? strerror(errno) : "it became shorter meanwhile");
			return put_zeros(to, size, err);
		}
		if (tar_write(to, piece, (size_t)n, err) < 0)
			return -1;
		size -= n;
	}
	return 0;
}

static int put_file(const char *path, struct tar_entry *entry, int fd, struct copy_notes *notes,
		    struct err *err)
{
	struct stat st;
	auto_close int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
		copy_note(notes, path, file < 0 ? strerror(errno) : "it is no longer a file");
		return 0;
	}
	entry->type = TAR_FILE;
	entry->size = st.st_size;
	entry->mode = st.st_mode;
	entry->mtime = st.st_mtime;
	if (tar_write_header(fd, entry, err) < 0 ||
	    put_content(file, fd, path, entry->size, notes, err) < 0)
		return -1;
	return put_zeros(fd, tar_pad(entry->size), err);
}

static int put_symlink(const FTSENT *at, struct tar_entry *entry, int fd, struct copy_notes *notes,
		       struct err *err)
{
	ssize_t n = readlink(at->fts_accpath, entry->link, sizeof entry->link - 1);
	if (n < 0) {
		copy_note(notes, at->fts_path, strerror(errno));
		return 0;
	}
	entry->link[n] = 0;
	entry->type = TAR_SYMLINK;
	entry->mode = 0777;
	return tar_write_header(fd, entry, err);
}

static int put_one(const struct copy_out *out, const FTSENT *at, struct tar_entry *entry, int fd,
		   struct copy_notes *notes, struct err *err)
{
	const char *below = at->fts_path + strlen(out->path);
	*entry->link = 0;
	entry->size = 0;
	entry->mtime = at->fts_statp->st_mtime;
	entry->mode = at->fts_statp->st_mode;
	while (*below == '/')
		below++;
	snprintf(entry->name, sizeof entry->name, "./%s", below);
	switch (at->fts_info) {
	case FTS_D:
		entry->type = TAR_DIR;
		return out->contents && at->fts_level == 0 ? 0 : tar_write_header(fd, entry, err);
	case FTS_F:
		return put_file(at->fts_accpath, entry, fd, notes, err);
	case FTS_SL:
	case FTS_SLNONE:
		return put_symlink(at, entry, fd, notes, err);
	case FTS_DP:
		return 0;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		copy_note(notes, at->fts_path, strerror(at->fts_errno));
		return 0;
	default:
		copy_note(notes, at->fts_path, "neither a file nor a directory: not copied");
		return 0;
	}
}

static int put_tree(const struct copy_out *out, struct tar_entry *entry, int fd,
		    struct copy_notes *notes, struct err *err)
{
	FTS *tree = open_tree(out->path);
	int result = tree ? 0 : err_set(err, errno, "'%s'", out->path);
	for (FTSENT *at; result == 0 && (at = fts_read(tree));)
		result = put_one(out, at, entry, fd, notes, err);
	if (tree)
		fts_close(tree);
	return result;
}

int copy_out_write(const struct copy_out *out, int fd, struct copy_notes *notes, struct err *err)
{
	auto_free struct tar_entry *entry = xcalloc(1, sizeof *entry);
	int result;
	if (out->directory) {
		result = put_tree(out, entry, fd, notes, err);
	} else {
		snprintf(entry->name, sizeof entry->name, "./%s", out->name);
		size_t before = notes->count;
		result = put_file(out->path, entry, fd, notes, err);
		if (result == 0 &&
		    notes->count != before) /* it is all there is: leave the old one */
			return err_set(err, ERR_CONFLICT, "'%s' was not copied", out->path);
	}
	return result < 0 ? -1 : put_zeros(fd, TAR_END, err);
}
