#include "api/file.h"

#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/utf8.h"
#include "config/config.h"
#include "fs/regular.h"
#include "fs/text.h"
#include "net/call.h"
#include "net/server.h"

enum { PATH_BYTES_MAX = 65536 };

const char *file_path(struct call *call, const char *path, const char *path_b64, struct err *err)
{
	auto_buf struct buf bytes = BUF(PATH_BYTES_MAX);
	if (path_b64 && *path_b64) {
		if (base64_decode(&bytes, path_b64, strlen(path_b64)) < 0 || !bytes.len ||
		    strlen(bytes.data) != bytes.len) {
			err_set(err, ERR_INVALID, "path_b64 is not the base64 of a path");
			return NULL;
		}
		path = bytes.data;
	}
	if (!*path) {
		err_set(err, ERR_INVALID, "the path is empty");
		return NULL;
	}
	if (*path == '/')
		return arena_strdup(call->arena, path);
	const char *dir = call->server->config->workspace;
	if (!strcmp(path, "."))
		return arena_strdup(call->arena, dir);
	path += strncmp(path, "./", 2) == 0 ? 2 : 0;
	return arena_printf(call->arena, "%s/%s", strcmp(dir, "/") != 0 ? dir : "", path);
}

const char *file_path_b64(struct call *call, const char *path)
{
	if (utf8_valid(path, strlen(path)))
		return NULL;
	auto_buf struct buf coded = BUF(PATH_BYTES_MAX * 2);
	base64_encode(&coded, path, strlen(path));
	return arena_strdup(call->arena, coded.data ? coded.data : "");
}

size_t file_edit_max(const struct call *call)
{
	return (size_t)call->server->config->net.max_body;
}

int file_load(const char *path, struct buf *to, enum text_encoding *ret, struct err *err)
{
	auto_close int fd = regular_open(path, NULL, err);
	if (fd < 0 || regular_read(fd, to, err) < 0)
		return -1;
	return text_decode(to, ret, err);
}
