/* Templates: directories of the host's state that are never changed once they are there. What is in one
 * box/template.h says; about.json is ours. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/wait.h"
#include "box/files.h"
#include "host/history.h"
#include "host/host.h"
#include "host/import.h"
#include "host/mounts.h"
#include "net/call.h"
#include "net/route.h"
#include "proc/child.h"

#define DRAFT ".draft" /* begins the names of those that are not whole */

static char *place(const struct host *host, const char *name, const char *below)
{
	auto_free char *dir = host_path(host, "templates", name, "");
	return xasprintf("%s%s", dir, below);
}

static json_t *about(const struct host *host, const char *name)
{
	auto_free char *path = place(host, name, "/about.json");
	return json_load_file(path, 0, NULL);
}

/* "machine" and none: what the machine itself has. */
static bool is_machine(const char *name)
{
	return !name || !*name || !strcmp(name, "machine");
}

int templates_find(const struct host *host, const char *name, char **ret, struct err *err)
{
	*ret = NULL;
	if (is_machine(name))
		return 0;
	auto_free char *note = place(host, name, "/about.json");
	if (!address_is_id(name) || access(note, F_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no template '%.60s'", name);
	*ret = place(host, name, "");
	return 0;
}

/* A template is made in a place that no name has, and gets its name when it is whole. */
static char *draft(const struct host *host, const char *name, struct err *err)
{
	char random[13];
	auto_free char *path = place(host, name, "");
	if (!address_is_id(name) || is_machine(name)) {
		err_set(err, ERR_INVALID,
			"a template's name is a lower-case letter, then lower-case letters, digits and single '-', at most %d",
			BOX_ID_MAX);
		return NULL;
	}
	if (access(path, F_OK) == 0) {
		err_set(err, ERR_CONFLICT, "there is a template '%s' already", name);
		return NULL;
	}
	host_secret(random, sizeof random);
	return host_path(host, "templates/" DRAFT, "", random);
}

void templates_clean(const struct host *host)
{
	auto_free char *folder = host_path(host, "templates", "", "");
	DIR *dir = opendir(folder);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		auto_free char *path = place(host, entry->d_name, "");
		if (!strncmp(entry->d_name, DRAFT, strlen(DRAFT)))
			(void)files_remove(path, NULL);
	}
	if (dir)
		closedir(dir);
}

/* Gives a draft its name. to and text are given up. */
static int publish(const char *path, char *to, json_t *text, struct err *err)
{
	auto_free char *name = to, *note = xasprintf("%s/about.json", path);
	json_object_set_new(text, "created_ms", json_integer(host_now_ms()));
	int result = json_dump_file(text, note, JSON_COMPACT);
	json_decref(text);
	if (result == 0 && rename(path, name) == 0)
		return 0;
	if (result == 0 && (errno == EEXIST || errno == ENOTEMPTY))
		return err_set(err, ERR_CONFLICT, "another has made that template meanwhile");
	return err_set(err, result < 0 ? EIO : errno, "cannot write '%s'", name);
}

json_t *templates_settings(const struct host *host, const char *name)
{
	json_t *known = is_machine(name) ? NULL : about(host, name);
	json_t *settings = json_incref(json_object_get(known, "image"));
	json_decref(known);
	return settings;
}

static int snapshot(struct host *host, const struct box *box, const char *name, bool browser,
		    const char *path, struct err *err)
{
	if (life_snapshot(host, box->id, browser, path, err) < 0)
		return -1;
	const char *base = json_string_value(json_object_get(box->spec, "template"));
	json_t *text = json_pack("{ssss so*}", "source", "snapshot", "box", box->id, "image",
				 templates_settings(host, base));
	return publish(path, place(host, name, ""), text, err);
}

int templates_snapshot(struct host *host, const char *id, const char *name, bool browser,
		       struct err *err)
{
	struct box *box = boxes_get(&host->boxes, id);
	if (!box)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", id);
	auto_free char *path = draft(host, name, err);
	int result = path ? snapshot(host, box, name, browser, path, err) : -1;
	if (result == 0)
		history_add(host, box, HISTORY_SNAPSHOT, &(struct history_text){ name });
	else if (path)
		(void)files_remove(path, NULL);
	boxes_put(&host->boxes, box);
	return result;
}

/* ---- the API ---- */

struct template_info {
	const char *name, *source;
	int64_t created_ms;
};
static const struct field info_fields[] = {
	STR(template_info, name, REQUIRED, "For POST /v1/sandboxes."),
	STR(template_info, source, REQUIRED, "machine, snapshot, or what it was imported from."),
	INT(template_info, created_ms, REQUIRED, "When, in milliseconds since 1970."),
};
static const struct schema info_schema = SCHEMA(template_info, "Template", info_fields);
static const struct field info_data = { .type = T_OBJ, .of = &info_schema };
static const struct field list_data = { .type = T_LIST, .item = T_OBJ, .of = &info_schema };

static void decref(void *value)
{
	json_decref(value);
}

static bool describe(struct call *call, const char *name, struct template_info *to)
{
	json_t *known = about(host_of(call->server), name);
	if (!known)
		return false;
	arena_defer(call->arena, decref, known);
	*to = (struct template_info){
		arena_strdup(call->arena, name),
		json_string_value(json_object_get(known, "source")),
		json_integer_value(json_object_get(known, "created_ms")),
	};
	return to->source != NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct template_info *)a)->name,
		      ((const struct template_info *)b)->name);
}

static int list(struct call *call, const void *in, struct err *err)
{
	enum { MOST = 1000 };
	(void)in;
	auto_free char *path = host_path(host_of(call->server), "templates", "", "");
	struct template_info *all = arena_alloc(call->arena, (MOST + 1) * sizeof *all);
	size_t count = 0;
	all[count++] = (struct template_info){ "machine", "machine", 0 };
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && count < MOST && (entry = readdir(dir));)
		if (address_is_id(entry->d_name) && describe(call, entry->d_name, &all[count]))
			count++;
	if (dir)
		closedir(dir);
	qsort(all + 1, count - 1, sizeof *all, by_name);
	return call_reply(call, &(struct list){ count, all }, err);
}

struct import {
	const char *name, *source, *origin;
	struct upload *file;
};
#define IMPORT_NAME STR(import, name, REQUIRED, "Name of the template.", .max_len = BOX_ID_MAX)
#define IMPORT_ORIGIN                 \
	STR(import, origin, OPTIONAL, \
	    "What to tell as its source, when that is not where it came from.", .max_len = 4095)
static const struct field import_fields[] = {
	IMPORT_NAME,
	STR(import, source, REQUIRED | ABSPATH,
	    "On the host's machine, below one of its --import-roots: an OCI or Docker image, as an archive or a directory; or an archive of a root file system.",
	    .max_len = 4095),
	IMPORT_ORIGIN,
};
static const struct schema import_schema =
	SCHEMA(import, "TemplateImportRequest", import_fields, .strict = true);

static const struct field upload_fields[] = {
	FILE_FIELD(import, file, REQUIRED,
		   "An archive of an OCI or Docker image, or of a root file system."),
	IMPORT_NAME,
	IMPORT_ORIGIN,
};
static const struct schema upload_schema =
	SCHEMA(import, "Body_upload_template", upload_fields, .strict = true);

/* The error that the program has printed; not all that it printed is ours. */
static int failed(struct buf *said, struct err *err)
{
	char *text = said->len ? said->data : (char *)"";
	long code = strtol(text, &text, 10);
	for (char *at = text; *at; at++) { /* a terminal may show it */
		bool wide = *at == '\xc2' && (unsigned char)at[1] < 0xa0;
		if ((unsigned char)*at < ' ' || *at == 127 || wide)
			*at = '?';
	}
	err_set(err, ERR_INVALID, "%s", *text ? text + 1 : "unpacking failed");
	err->code = err_status((int)code) == 500 ? ERR_INVALID : (int)code;
	return -1;
}

/* What was killed may still be at work for a moment, on what is removed next. */
static void wait_for_end(int alive)
{
	enum { END_MS = 30000 };
	char byte;
	int64_t until_ms = clock_ms() + END_MS;
	while (wait_until(alive, POLLIN, until_ms) && read(alive, &byte, 1) > 0)
		;
}

/* In a program of its own, run anew: threads and namespaces do not go together. */
static int unpack(struct call *call, int source, const char *to, struct buf *said, struct err *err)
{
	const struct host_config *config = host_of(call->server)->config;
	struct program_status end;
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	auto_free char *bytes = xasprintf("%lld", (long long)config->import_size);
	char *argv[] = { (char *)"/proc/self/exe", (char *)IMPORT_COMMAND, (char *)to, bytes,
			 NULL };
	/* Not ours, which has secrets of the host: it reads what others have made. */
	char *const env[] = { (char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL };
	struct child_spec spec = { .argv = argv,
				   .env = env,
				   .extra = { source, pipe_fds[1] },
				   .extras = 2,
				   .wait = { clock_ms() + config->import_ms, -1,
					     server_stop_fd(call->server) } };
	int result = child_run(&spec, said, &end, err);
	close(pipe_fds[1]);
	wait_for_end(pipe_fds[0]);
	close(pipe_fds[0]);
	if (result < 0)
		return err && err->code == ERR_SLOW ? err_set(err, ERR_SLOW,
							      "unpacking took longer than %lld s "
							      "(--import-timeout)",
							      (long long)config->import_ms / 1000)
						    : -1;
	return end.code ? failed(said, err) : 0;
}

static int import_to(struct call *call, const struct import *request, int source, const char *path,
		     struct err *err)
{
	enum { SETTINGS_MAX = 1 << 20 };
	auto_buf struct buf said = BUF(SETTINGS_MAX);
	const char *origin = request->origin   ? request->origin
			     : request->source ? request->source
					       : request->file->name;
	if (mkdir(path, 0755) < 0)
		return err_set(err, errno, "mkdir '%s'", path);
	if (unpack(call, source, path, &said, err) < 0)
		return -1;
	json_t *from = json_string(origin); /* a file's name may be any bytes, or none */
	json_t *text = json_pack("{soso*}", "source", from ? from : json_string("upload"), "image",
				 said.len ? json_parse(said.data, said.len, NULL) : NULL);
	return publish(path, place(host_of(call->server), request->name, ""), text, err);
}

static int import_from(struct call *call, const struct import *request, int source, struct err *err)
{
	auto_free char *path = draft(host_of(call->server), request->name, err);
	struct template_info info;
	struct stat st;
	if (!path)
		return -1;
	if (fstat(source, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory",
			       request->source);
	if (import_to(call, request, source, path, err) < 0) {
		(void)files_remove(path, NULL);
		return -1;
	}
	return describe(call, request->name, &info) ? call_reply(call, &info, err) : 0;
}

/* Each takes memory, and the disk's time. */
static int import_in_turn(struct call *call, const struct import *request, int source,
			  struct err *err)
{
	enum { AT_ONCE = 4 };
	static _Atomic int running;
	int result = ++running > AT_ONCE
			     ? err_set(err, ERR_LIMIT,
				       "%d templates are being imported already: try again later",
				       AT_ONCE)
			     : import_from(call, request, source, err);
	running--;
	return result;
}

static int import(struct call *call, const void *in, struct err *err)
{
	const struct import *request = in;
	const char *roots = host_of(call->server)->config->import_roots;
	if (!roots || !*roots)
		return err_set(err, ERR_INVALID,
			       "the host was started without --import-roots: upload the image "
			       "('aio template import', POST /v1/templates/upload)");
	auto_close int source = mounts_open(roots, "--import-roots", request->source, err);
	return source < 0 ? -1 : import_in_turn(call, request, source, err);
}

static int upload(struct call *call, const void *in, struct err *err)
{
	const struct import *request = in;
	if (request->file->error)
		return err_set(err, request->file->error, "receiving the upload");
	return import_in_turn(call, request, request->file->fd, err);
}

struct templates_one {
	const char *name;
};
static const struct field one_fields[] = {
	STR(templates_one, name, PATH | REQUIRED, "Name of the template.", .max_len = 64),
};
static const struct schema one_schema = SCHEMA(templates_one, "TemplateName", one_fields);

static bool in_use(struct host *host, const char *name)
{
	size_t count;
	bool used = false;
	struct box **boxes = boxes_list(&host->boxes, &count);
	for (size_t i = 0; i < count; i++) {
		const char *theirs = json_string_value(json_object_get(boxes[i]->spec, "template"));
		used |= theirs && !strcmp(theirs, name);
		boxes_put(&host->boxes, boxes[i]);
	}
	free(boxes);
	return used;
}

static int remove_template(struct call *call, const void *in, struct err *err)
{
	const struct templates_one *request = in;
	struct host *host = host_of(call->server);
	auto_free char *path = place(host, request->name, "");
	char random[13];
	if (is_machine(request->name))
		return err_set(err, ERR_CONFLICT, "'machine' is this machine itself: it stays");
	if (!address_is_id(request->name) || access(path, F_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no template '%.60s'", request->name);
	if (in_use(host, request->name))
		return err_set(err, ERR_CONFLICT, "template '%s' is in use", request->name);
	host_secret(random, sizeof random);
	auto_free char *away = host_path(host, "templates/" DRAFT, "", random);
	if (rename(path, away) < 0)
		return err_set(err, errno, "cannot remove template '%s'", request->name);
	return files_remove(away, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/templates", list, NULL, &list_data, "List templates" },
	{ "POST", "/v1/templates", import, &import_schema, &info_data,
	  "Import a template from the host's machine" },
	{ "POST", "/v1/templates/upload", upload, &upload_schema, &info_data,
	  "Import a template that is sent" },
	{ "DELETE", "/v1/templates/{name}", remove_template, &one_schema, NULL,
	  "Remove a template that no sandbox uses" },
};
const struct route_group templates_group = {
	"templates", "What sandboxes start from: for those who have the host's own token.", routes,
	COUNT(routes)
};
