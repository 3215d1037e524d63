#include "mcp/resource.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/hub.h"
#include "mcp/page.h"
#include "net/mime.h"
#include "net/server.h"
#include "proc/user.h"

enum { FILES_MAX = 10000, DEPTH_MAX = 8, READ_MAX = 16 << 20, ENTRIES_MAX = 10000 };

static const char context_uri[] = "sandbox://context", servers_uri[] = "sandbox://mcp-servers";

const struct resource_extra *resource_extra;
resource_text *resource_context;

/* ---- URIs ---- */

int resource_path(const char *uri, char *ret, size_t room, struct err *err)
{
	auto_buf struct buf path = BUF(PATH_MAX - 1);
	if (strncasecmp(uri, "file://", 7) != 0)
		return err_set(err, ERR_NOT_FOUND, "'%.200s' is not a file: URI", uri);
	const char *at = uri + 7;
	if (!strncasecmp(at, "localhost/", 10))
		at += 9;
	if (*at != '/' || url_decode(&path, at, strcspn(at, "?#")) < 0 || path.len >= room)
		return err_set(err, ERR_NOT_FOUND, "'%.200s' has no absolute path", uri);
	memcpy(ret, path.data, path.len + 1);
	return 0;
}

const char *resource_uri(struct arena *arena, const char *path)
{
	auto_buf struct buf uri = BUF(PATH_MAX * 3 + 8);
	buf_str(&uri, "file://");
	for (const char *at = path; *at;) {
		size_t n = strcspn(at, "/");
		auto_free char *part = xstrndup(at, n);
		url_encode(&uri, part);
		at += n;
		while (*at == '/') {
			buf_str(&uri, "/");
			at++;
		}
	}
	return arena_strdup(arena, uri.data);
}

/* ---- writing ---- */

void resource_put(struct exchange *ex, const char *uri, const char *name, const char *title,
		  const char *help, const char *type, long long size)
{
	jw_open(&ex->jw, '{');
	jw_key_str(&ex->jw, "uri", uri);
	jw_key(&ex->jw, "name");
	jw_text(&ex->jw, name, strlen(name));
	if (title)
		jw_key_str(&ex->jw, "title", title);
	if (help)
		jw_key_str(&ex->jw, "description", help);
	if (type)
		jw_key_str(&ex->jw, "mimeType", type);
	if (size >= 0)
		jw_key_int(&ex->jw, "size", size);
	jw_close(&ex->jw, '}');
}

void resource_put_text(struct exchange *ex, const char *uri, const char *type, const char *text,
		       size_t len)
{
	jw_open(&ex->jw, '{');
	jw_key_str(&ex->jw, "uri", uri);
	jw_key_str(&ex->jw, "mimeType", type);
	jw_key(&ex->jw, "text");
	jw_text(&ex->jw, text, len);
	jw_close(&ex->jw, '}');
}

void resource_put_blob(struct exchange *ex, const char *uri, const char *type, const void *data,
		       size_t len)
{
	auto_buf struct buf coded = BUF(len / 3 * 4 + 8);
	base64_encode(&coded, data, len);
	jw_open(&ex->jw, '{');
	jw_key_str(&ex->jw, "uri", uri);
	jw_key_str(&ex->jw, "mimeType", type);
	jw_key(&ex->jw, "blob");
	jw_text(&ex->jw, coded.data ? coded.data : "", coded.len);
	jw_close(&ex->jw, '}');
}

/* ---- the list ---- */

struct resource_file {
	char *path;
	long long size;
};

struct resource_walk {
	struct arena *arena;
	struct resource_file *files;
	size_t count;
};

/* What is hidden, or made by programs, is not what one looks for in a workspace. */
static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "node_modules") != 0 &&
	       strcmp(entry->d_name, "__pycache__") != 0;
}

static void walk_directory(struct resource_walk *walk, const char *dir, int depth)
{
	struct dirent **entries;
	int count = scandir(dir, &entries, is_shown, alphasort);
	for (int i = 0; i < count; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, entries[i]->d_name);
		struct stat st;
		free(entries[i]);
		if (walk->count >= FILES_MAX || lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			walk_directory(walk, path, depth + 1);
		else if (S_ISREG(st.st_mode) && walk->count < FILES_MAX)
			walk->files[walk->count++] =
				(struct resource_file){ arena_strdup(walk->arena, path),
							st.st_size };
	}
	if (count >= 0)
		free(entries);
}

/* As the sandbox user sees it. */
static int enter(struct exchange *ex, struct user_view *view, struct err *err)
{
	const struct user *user = user_sandbox(ex->from.server->config->user, err);
	return user ? user_enter(user, view, err) : -1;
}

int resource_list(struct exchange *ex, struct err *err)
{
	const char *workspace = ex->from.server->config->workspace;
	struct resource_walk walk = { &ex->arena, NULL, 0 };
	struct user_view view;
	size_t at;
	if (page_start(ex, &at) < 0 || enter(ex, &view, err) < 0)
		return -1;
	walk.files = xmalloc(FILES_MAX * sizeof *walk.files);
	walk_directory(&walk, strcmp(workspace, "/") ? workspace : "", 0);
	user_leave(&view);
	jw_key(&ex->jw, "resources");
	jw_open(&ex->jw, '[');
	if (at == 0) {
		resource_put(ex, context_uri, "context", "Sandbox environment",
			     "System, interpreters and tools of this sandbox, as text.",
			     "text/plain", -1);
		resource_put(ex, servers_uri, "mcp-servers", "MCP servers",
			     "The servers behind this one, with why any of them is unavailable.",
			     "application/json", -1);
		if (resource_extra)
			resource_extra->list(ex);
	}
	for (size_t i = at; i < walk.count && i < at + PAGE_SIZE; i++) {
		const char *path = walk.files[i].path, *name = path + strlen(workspace);
		resource_put(ex, resource_uri(&ex->arena, path), name + (*name == '/'), NULL, NULL,
			     mime_of(path), walk.files[i].size);
	}
	jw_close(&ex->jw, ']');
	page_end(ex, at, walk.count);
	free(walk.files);
	return 0;
}

int resource_templates(struct exchange *ex, struct err *err)
{
	(void)err;
	jw_key(&ex->jw, "resourceTemplates");
	jw_open(&ex->jw, '[');
	jw_open(&ex->jw, '{');
	jw_key_str(&ex->jw, "uriTemplate", "file://{+path}");
	jw_key_str(&ex->jw, "name", "file");
	jw_key_str(&ex->jw, "title", "File or directory of the sandbox");
	jw_key_str(
		&ex->jw, "description",
		"Any file by its absolute path: text, or base64 for what is not text; at most 16 "
		"MiB. A directory gives the names in it, one on a line.");
	jw_close(&ex->jw, '}');
	if (resource_extra)
		resource_extra->templates(ex);
	jw_close(&ex->jw, ']');
	return 0;
}

/* ---- reading ---- */

static int unknown(struct exchange *ex, const char *uri, const char *why)
{
	ex->error_data = json_pack("{s:s}", "uri", uri);
	return exchange_fail(ex, ex->from.revision >= MCP_2026_07_28 ? RPC_PARAMS : RPC_NO_RESOURCE,
			     "Resource not found: %.200s%s%s", uri, *why ? ": " : "", why);
}

static void put_directory(struct exchange *ex, const char *uri, int fd)
{
	auto_buf struct buf names = BUF(4 << 20);
	DIR *dir = fdopendir(fd);
	const struct dirent *entry;
	for (int n = 0; dir && n < ENTRIES_MAX && (entry = readdir(dir)); n++)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			buf_printf(&names, "%s%s\n", entry->d_name,
				   entry->d_type == DT_DIR ? "/" : "");
	if (dir)
		closedir(dir);
	else
		close(fd);
	resource_put_text(ex, uri, "inode/directory", names.data ? names.data : "", names.len);
}

static int put_file(struct exchange *ex, const char *uri, const char *path, int fd)
{
	auto_buf struct buf data = BUF(READ_MAX);
	ssize_t n = 1;
	while (n > 0) {
		char *room =
			buf_grow(&data, 65536 < READ_MAX - data.len ? 65536 : READ_MAX - data.len);
		n = room && data.len < READ_MAX
			    ? read(fd, room,
				   65536 < READ_MAX - data.len ? 65536 : READ_MAX - data.len)
			    : 0;
		data.len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return exchange_fail(ex, RPC_FAILED, "reading %.200s: %s", path, strerror(errno));
	const char *text = data.data ? data.data : "";
	if (utf8_valid(text, data.len) && !memchr(text, 0, data.len))
		resource_put_text(ex, uri, mime_of(path), text, data.len);
	else
		resource_put_blob(ex, uri, mime_of(path), text, data.len);
	return 0;
}

static int read_path(struct exchange *ex, const char *uri, const char *path, struct err *err)
{
	struct user_view view;
	struct stat st;
	if (enter(ex, &view, err) < 0)
		return -1;
	/* A pipe must not make us wait for its writer. */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int code = errno;
	user_leave(&view);
	if (fd < 0 || fstat(fd, &st) < 0)
		return unknown(ex, uri, strerror(code));
	if (S_ISDIR(st.st_mode)) {
		put_directory(ex, uri, TAKE_FD(fd));
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return exchange_fail(ex, RPC_PARAMS, "%.200s is not a regular file", path);
	if (st.st_size > READ_MAX)
		return exchange_fail(ex, RPC_PARAMS,
				     "%.200s has %lld bytes; a resource may have %d: read it in "
				     "parts with the file tools",
				     path, (long long)st.st_size, READ_MAX);
	return put_file(ex, uri, path, fd);
}

static int read_context(struct exchange *ex, struct err *err)
{
	auto_buf struct buf text = BUF(1 << 20);
	if (resource_context(ex->from.server, &text, err) < 0)
		return -1;
	resource_put_text(ex, context_uri, "text/plain", text.data, text.len);
	return 0;
}

static int read_servers(struct exchange *ex)
{
	struct hub_info infos[64];
	struct jw jw;
	size_t count = hub_list(&ex->arena, infos, COUNT(infos));
	jw_init(&jw, 1 << 20);
	jw_open(&jw, '[');
	for (size_t i = 0; i < count; i++) {
		jw_open(&jw, '{');
		jw_key_str(&jw, "name", infos[i].name);
		jw_key_str(&jw, "kind", infos[i].kind);
		jw_key_str(&jw, "status", infos[i].status);
		jw_key_str(&jw, "reason", infos[i].reason);
		jw_key_str(&jw, "hint", infos[i].hint);
		jw_close(&jw, '}');
	}
	jw_close(&jw, ']');
	resource_put_text(ex, servers_uri, "application/json", jw.out.data, jw.out.len);
	jw_done(&jw);
	return 0;
}

int resource_read(struct exchange *ex, struct err *err)
{
	const char *uri = json_string_value(json_object_get(ex->params, "uri"));
	char path[PATH_MAX];
	int result;
	if (!uri)
		return exchange_fail(ex, RPC_PARAMS, "uri is missing");
	jw_key(&ex->jw, "contents");
	jw_open(&ex->jw, '[');
	if (resource_extra && resource_extra->read(ex, uri))
		result = 0;
	else if (!strcmp(uri, context_uri))
		result = read_context(ex, err);
	else if (!strcmp(uri, servers_uri))
		result = read_servers(ex);
	else if (resource_path(uri, path, sizeof path, NULL) < 0)
		result = unknown(ex, uri, "");
	else
		result = read_path(ex, uri, path, err);
	jw_close(&ex->jw, ']');
	return result;
}

/* ---- completion ---- */

size_t resource_complete(struct exchange *ex, const char *begin, size_t most)
{
	const char *slash = strrchr(begin, '/');
	struct user_view view;
	struct dirent **entries;
	size_t written = 0;
	if (!slash || enter(ex, &view, NULL) < 0)
		return 0;
	auto_free char *dir = xstrndup(begin, (size_t)(slash - begin));
	int count = scandir(*dir ? dir : "/", &entries, NULL, alphasort);
	user_leave(&view);
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		if (written < most && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    !strncmp(name, slash + 1, strlen(slash + 1))) {
			auto_free char *path = xasprintf("%s/%s", dir, name);
			jw_text(&ex->jw, path, strlen(path));
			written++;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return written;
}
