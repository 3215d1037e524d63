/* Files as they are, in and out: uploads and downloads of any size. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "config/config.h"
#include "fs/file_user.h"
#include "fs/place.h"
#include "fs/regular.h"
#include "fs/save.h"
#include "journal/journal.h"
#include "net/call.h"
#include "net/server.h"

/* ---- upload ---- */

struct file_upload {
	struct upload *file;
	const char *path, *path_b64;
};
static const struct field upload_fields[] = {
	FILE_FIELD(file_upload, file, REQUIRED, "The file."),
	STR(file_upload, path, OPTIONAL,
	    "Where to put it: a path, or a directory; the workspace when absent."),
	FILE_B64(file_upload),
};
static const struct schema upload_schema = SCHEMA(file_upload, "Body_upload_file", upload_fields);

struct file_uploaded {
	const char *file_path;
	int64_t file_size;
	bool success;
};
static const struct field uploaded_fields[] = {
	STR(file_uploaded, file_path, REQUIRED, "Where it is."),
	INT(file_uploaded, file_size, REQUIRED, "Its size in bytes."),
	BOOL(file_uploaded, success, REQUIRED, "Whether it is there."),
};
static const struct schema uploaded_schema =
	SCHEMA(file_uploaded, "FileUploadResult", uploaded_fields);
static const struct field uploaded_data = FILE_RESULT(&uploaded_schema);

/* The last part of what the client calls the file, whichever way its system writes paths. */
static const char *own_name(const char *name)
{
	for (const char *at = name; at && *at; at++)
		if (*at == '/' || *at == '\\')
			name = at + 1;
	return !name || !*name || !strcmp(name, ".") || !strcmp(name, "..") ? "upload" : name;
}

/* The directory that the path names, if any, is where a file of the client's name goes. */
static const char *upload_target(struct call *call, const char *path, const char *name)
{
	struct stat st;
	size_t len = strlen(path);
	bool slash = path[len - 1] == '/';
	if (!slash && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
		return path;
	return arena_printf(call->arena, "%s%s%s", path, slash ? "" : "/", name);
}

/* What was received is the server's: it becomes the caller's, as if they had made it. */
static int hand_over(struct call *call, int fd, struct err *err)
{
	const struct user *user;
	if (file_user_of(call, false, &user, err) < 0)
		return -1;
	if ((user->other && fchown(fd, user->uid, user->gid) < 0) ||
	    fchmod(fd, 0666 & ~user_umask()) < 0)
		return err_set(err, errno, "the upload");
	return 0;
}

static int place_upload(struct call *call, const struct upload *upload, const char **path,
			struct err *err)
{
	auto_leave struct user_view view = { 0 };
	auto_release struct place place = { 0 };
	if (upload->error)
		return err_set(err, upload->error, "receiving the upload");
	if (hand_over(call, upload->fd, err) < 0 || file_user_enter(call, false, &view, err) < 0)
		return -1;
	*path = upload_target(call, *path, own_name(upload->name));
	if (place_hold(*path, &place, err) < 0)
		return -1;
	return save_put(&(struct save){ .fd = upload->fd, .give_away = true }, &place, err);
}

static int upload_file(struct call *call, const void *in, struct err *err)
{
	const struct file_upload *r = in;
	struct err cause = { 0 };
	const char *given = r->path && *r->path ? r->path : own_name(r->file->name);
	const char *path = file_path(call, given, r->path_b64, &cause);
	if (!path || place_upload(call, r->file, &path, &cause) < 0)
		return file_error(call, "upload", path ? path : given, &cause, err);
	struct file_uploaded uploaded = { path, r->file->size, true };
	journal_add(JOURNAL_FILE_WRITTEN,
		    &(struct journal_file){ path, "upload", uploaded.file_size });
	return call_reply(call, &uploaded, err);
}

/* ---- download ---- */

struct file_download {
	const char *path, *path_b64, *change_policy;
};
static const char *const policies[] = { "ignore", "abort", NULL };
static const struct field download_fields[] = {
	STR(file_download, path, QUERY | REQUIRED, "Absolute file path."),
	ENUM(file_download, change_policy, QUERY,
	     "abort: 409 when the file changes before the first byte, or since the If-Range of the "
	     "request; the connection ends early when it does later.",
	     .def = "ignore", .choices = policies),
	STR(file_download, path_b64, QUERY,
	    "The path as base64 of its bytes. Counts instead of the other."),
};
static const struct schema download_schema =
	SCHEMA(file_download, "FileDownloadRequest", download_fields);

enum { PIECE = 4 << 20, LAST_PIECE = 64 * 1024, UNSIZED_MAX = 16 << 20 };

/* The caller's sink, watching the file that goes through it. */
struct file_transfer_watched {
	struct sink sink; /* first */
	struct sink *to;
	struct call *call;
	struct stat was;
	int fd;
};

/* Removed is changed, too: a file is often replaced by another one. */
static bool has_changed(const struct file_transfer_watched *w)
{
	struct stat now;
	return fstat(w->fd, &now) < 0 || now.st_ino != w->was.st_ino || !now.st_nlink ||
	       now.st_size != w->was.st_size || now.st_mtim.tv_sec != w->was.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != w->was.st_mtim.tv_nsec;
}

/* Whether the caller wants to go on with a file that this one is not any more. */
static bool is_other(const struct call *call, const struct answer *answer)
{
	for (size_t i = 0; call->range && call->if_range && i < answer->header_count; i++)
		if (!strcmp(answer->headers[i].name, "ETag"))
			return strcmp(answer->headers[i].value, call->if_range) != 0;
	return false;
}

static int watched_begin(struct sink *sink, const struct answer *answer, struct err *err)
{
	struct file_transfer_watched *w = (struct file_transfer_watched *)sink;
	if (is_other(w->call, answer) || has_changed(w))
		return err_set(err, ERR_CONFLICT, "the file has changed");
	int result = w->to->begin(w->to, answer, err);
	sink->begun = w->to->begun;
	return result;
}

static int watched_write(struct sink *sink, const void *data, size_t len, struct err *err)
{
	struct file_transfer_watched *w = (struct file_transfer_watched *)sink;
	return w->to->write(w->to, data, len, err);
}

/* The last piece is a small one, so that the look before it is nearly the last thing. */
static int watched_file(struct sink *sink, int fd, int64_t at, int64_t len, struct err *err)
{
	struct file_transfer_watched *w = (struct file_transfer_watched *)sink;
	while (len > 0) {
		if (has_changed(w))
			return err_set(err, ERR_GONE, "the file changes while it is sent");
		int64_t size = len > PIECE + LAST_PIECE ? PIECE
			       : len > LAST_PIECE       ? len - LAST_PIECE
							: len;
		if (w->to->file(w->to, fd, at, size, err) < 0)
			return -1;
		at += size;
		len -= size;
	}
	return 0;
}

/* A file of /proc says that it has no size, and has text all the same. */
static int send_unsized(struct call *call, int fd, const char *name, struct err *err)
{
	auto_buf struct buf text = BUF(UNSIZED_MAX);
	if (regular_read(fd, &text, err) < 0)
		return -1;
	if (!text.len)
		return call_file(call, fd, call->route->type, name, NULL, 0, err);
	return call_text(call, call->route->type, text.data, text.len, err);
}

static int send_file(struct call *call, int fd, const struct stat *was, const char *name,
		     bool abort, struct err *err)
{
	struct file_transfer_watched watched = {
		.sink = { watched_begin, watched_write, watched_file, call->sink->client_fd,
			  false },
		.to = call->sink,
		.call = call,
		.was = *was,
		.fd = fd,
	};
	if (abort)
		call->sink = &watched.sink;
	int result = call_file(call, fd, call->route->type, name, NULL, 0, err);
	call->sink = watched.to;
	return result;
}

static int download_file(struct call *call, const void *in, struct err *err)
{
	const struct file_download *r = in;
	struct stat before, st;
	const char *path = file_path(call, r->path, r->path_b64, err);
	struct user_view view;
	if (!path || file_user_enter(call, false, &view, err) < 0)
		return -1;
	bool known = stat(path, &before) == 0;
	auto_close int fd = regular_open(path, &st, err);
	user_leave(&view);
	if (fd < 0)
		return -1;
	const char *name = strrchr(path, '/') + 1;
	if (!st.st_size)
		return send_unsized(call, fd, name, err);
	return send_file(call, fd, known ? &before : &st, name, !strcmp(r->change_policy, "abort"),
			 err);
}

static const struct route routes[] = {
	{ "POST", "/v1/file/upload", upload_file, &upload_schema, &uploaded_data, "Upload a file",
	  "As multipart/form-data, straight to disk. Missing directories are made.",
	  .message = "File uploaded successfully" },
	{ "GET", "/v1/file/download", download_file, &download_schema, NULL, "Download a file",
	  "Honours Range, If-Range and If-None-Match. What fails does so with an HTTP status.",
	  BARE, .type = "application/octet-stream" },
};

const struct route_group file_transfer_group = { "file", "Uploads, downloads.", routes,
						 COUNT(routes) };
