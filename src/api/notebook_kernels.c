/* Jupyter's API of kernels, as JupyterLab and other clients of Jupyter call it: at /jupyter/api. A kernel is a
 * session of /v1/jupyter, by its id. Clients speak to it themselves: see notebook_channels.c. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "api/notebook_model.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "code/kernels.h"
#include "config/config.h"
#include "fs/workdir.h"
#include "kernel/kernelspec.h"
#include "net/call.h"
#include "net/server.h"
#include "service/service.h"

enum { REPLY_MAX = 16 << 20, BODY_MAX = 1 << 20, PICTURE_MAX = 16384 };

/* ---- what its routes share ---- */

int notebook_allowed(struct err *err)
{
	const char *disabled = service_disabled("jupyter");
	return disabled ? err_set(err, ERR_UNAVAILABLE,
				  "the notebook is unavailable: it is disabled by the variable %s",
				  disabled)
			: 0;
}

static const struct field body_fields[] = {
	TEXT(notebook_body, body, OPTIONAL, "A JSON object.", .max_len = BODY_MAX),
};
const struct schema notebook_body_schema = SCHEMA(notebook_body, "NotebookBody", body_fields);
static const struct field change_fields[] = {
	STR(notebook_body, id, PATH | REQUIRED, "Its id.", .max_len = 100),
	TEXT(notebook_body, body, OPTIONAL, "A JSON object.", .max_len = BODY_MAX),
};
const struct schema notebook_change_schema = SCHEMA(notebook_body, "NotebookChange", change_fields);

int notebook_body(struct call *call, const struct notebook_body *in, const struct schema *schema,
		  void *to, struct err *err)
{
	const struct text none = { "{}", 2 }, *body = in->body.len ? &in->body : &none;
	if (desc_message(schema, body->data, body->len, call->arena, to) == 0)
		return 0;
	return err_set(err, ERR_BAD_REQUEST, "the body is not a JSON object");
}

const char *notebook_prefix(const struct call *call)
{
	const char *host = strstr(call->base_url, "://");
	const char *prefix = host ? strchr(host + 3, '/') : NULL;
	return prefix ? prefix : "";
}

/* The directory of a file of the workspace, which it names relative to that; the workspace where that is not one. */
static const char *directory_of(struct call *call, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *found = NULL;
	if (!slash || slash == path)
		return NULL;
	const char *directory = arena_printf(call->arena, "%s/%.*s",
					     call->server->config->workspace, (int)(slash - path),
					     path);
	return workdir_find(call, "path", directory, &found, NULL) == 0 ? found : NULL;
}

int notebook_start_kernel(struct call *call, const char *name, const char *path, const char *id,
			  const char **ret_id, struct err *err)
{
	const struct kernels_wish wish = { .id = id,
					   .kernel_name = name,
					   .cwd = directory_of(call, path) };
	struct kernels_opened opened;
	if (kernels_open(call, &wish, &opened, err) < 0)
		return -1;
	*ret_id = opened.id;
	return 0;
}

static void write_kernel(const struct kernels_info *info, struct arena *arena, struct jw *jw)
{
	jw_open(jw, '{');
	jw_key_str(jw, "id", info->id);
	jw_key_str(jw, "name", info->kernel_name);
	jw_key_str(jw, "last_activity", timestamp_text(arena, &info->used));
	jw_key_str(jw, "execution_state", info->busy ? "busy" : "idle");
	jw_key_int(jw, "connections", info->clients);
	jw_close(jw, '}');
}

int notebook_write_kernel(struct call *call, const char *id, struct jw *jw, struct err *err)
{
	struct kernels_info info;
	if (kernels_look(id, call->arena, &info, err) < 0)
		return -1;
	write_kernel(&info, call->arena, jw);
	return 0;
}

int notebook_reply(struct call *call, struct jw *jw, const char *location, struct err *err)
{
	struct answer answer = { location ? 201 : 200, "application/json", (int64_t)jw->out.len,
				 .headers = { { "Cache-Control", "no-store" },
					      { "Location", location } },
				 .header_count = location ? 2 : 1 };
	int result = jw_failed(jw) ? err_set(err, ERR_INTERNAL, "the answer is too large")
				   : call->sink->begin(call->sink, &answer, err);
	if (result == 0)
		result = call->sink->write(call->sink, jw->out.data, jw->out.len, err);
	jw_done(jw);
	return result;
}

int notebook_reply_nothing(struct call *call, struct err *err)
{
	struct answer answer = { 204, NULL, 0, .header_count = 0 };
	return call->sink->begin(call->sink, &answer, err);
}

/* ---- kernels ---- */

struct notebook_kernel {
	const char *id;
};
static const struct field kernel_fields[] = {
	STR(notebook_kernel, id, PATH | REQUIRED, "Its id.", .max_len = 64),
};
static const struct schema kernel_schema = SCHEMA(notebook_kernel, "NotebookKernel", kernel_fields);

static int list_kernels(struct call *call, const void *in, struct err *err)
{
	struct jw jw;
	(void)in;
	if (notebook_allowed(err) < 0)
		return -1;
	struct list list = kernels_list(call->arena);
	const struct kernels_info *infos = list.items;
	jw_init(&jw, REPLY_MAX);
	jw_open(&jw, '[');
	for (size_t i = 0; i < list.count; i++)
		write_kernel(&infos[i], call->arena, &jw);
	jw_close(&jw, ']');
	return notebook_reply(call, &jw, NULL, err);
}

static int reply_kernel(struct call *call, const char *id, const char *location, struct err *err)
{
	struct jw jw;
	jw_init(&jw, REPLY_MAX);
	if (notebook_write_kernel(call, id, &jw, err) == 0)
		return notebook_reply(call, &jw, location, err);
	jw_done(&jw);
	return -1;
}

static int get_kernel(struct call *call, const void *in, struct err *err)
{
	const struct notebook_kernel *request = in;
	return notebook_allowed(err) < 0 ? -1 : reply_kernel(call, request->id, NULL, err);
}

struct notebook_start {
	const char *name, *path, *kernel_id;
};
static const struct field start_fields[] = {
	STR(notebook_start, name, OPTIONAL, "Its kernelspec.", .max_len = 100),
	STR(notebook_start, path, OPTIONAL,
	    "A file of the workspace, whose directory it starts in.", .max_len = 4000),
	STR(notebook_start, kernel_id, OPTIONAL, "Its id.", .max_len = 64),
};
static const struct schema start_schema = SCHEMA(notebook_start, "NotebookStart", start_fields);

static int start_kernel(struct call *call, const void *in, struct err *err)
{
	struct notebook_start request = { 0 };
	const char *id;
	auto_buf struct buf location = BUF(4096);
	if (notebook_allowed(err) < 0 ||
	    notebook_body(call, in, &start_schema, &request, err) < 0 ||
	    notebook_start_kernel(call, request.name, request.path, request.kernel_id, &id, err) <
		    0)
		return -1;
	(void)buf_printf(&location, "%s/jupyter/api/kernels/", notebook_prefix(call));
	(void)url_encode(&location, id);
	return reply_kernel(call, id, location.data, err);
}

static int end_kernel(struct call *call, const void *in, struct err *err)
{
	const struct notebook_kernel *request = in;
	if (notebook_allowed(err) < 0 || kernels_close(request->id, err) < 0)
		return -1;
	return notebook_reply_nothing(call, err);
}

static int interrupt_kernel(struct call *call, const void *in, struct err *err)
{
	const struct notebook_kernel *request = in;
	if (notebook_allowed(err) < 0 || kernels_interrupt(request->id, err) < 0)
		return -1;
	return notebook_reply_nothing(call, err);
}

static int restart_kernel(struct call *call, const void *in, struct err *err)
{
	const struct notebook_kernel *request = in;
	if (notebook_allowed(err) < 0 || kernels_restart(call, request->id, err) < 0)
		return -1;
	return reply_kernel(call, request->id, NULL, err);
}

/* ---- kernelspecs ---- */

static void write_argv(const struct kernelspec *spec, struct jw *jw)
{
	const char *const *argv = spec->argv.items;
	jw_key(jw, "argv");
	jw_open(jw, '[');
	for (size_t i = 0; i < spec->argv.count; i++)
		jw_str(jw, argv[i]);
	jw_close(jw, ']');
}

/* The picture of the product's Python, as a URL that holds wherever the page is. NULL: it is not there. */
static const char *picture(struct call *call)
{
	char data[PICTURE_MAX];
	auto_buf struct buf url = BUF((size_t)PICTURE_MAX * 2);
	auto_close int fd = open(arena_printf(call->arena,
					      "%s/.venv/share/jupyter/kernels/python3/"
					      "logo-64x64.png",
					      call->server->home),
				 O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
	(void)buf_str(&url, "data:image/png;base64,");
	return n > 0 && base64_encode(&url, data, (size_t)n) == 0
		       ? arena_strdup(call->arena, url.data)
		       : NULL;
}

static void write_resources(struct call *call, const struct kernelspec *spec, struct jw *jw)
{
	const char *url = strcmp(spec->name, "python3") ? NULL : picture(call);
	jw_key(jw, "resources");
	jw_open(jw, '{');
	if (url)
		jw_key_str(jw, "logo-64x64", url);
	jw_close(jw, '}');
}

static void write_spec(struct call *call, const struct kernelspec *spec, struct jw *jw)
{
	jw_open(jw, '{');
	jw_key_str(jw, "name", spec->name);
	jw_key(jw, "spec");
	jw_open(jw, '{');
	write_argv(spec, jw);
	jw_key_str(jw, "display_name", spec->display);
	jw_key_str(jw, "language", spec->language);
	jw_key_str(jw, "interrupt_mode", spec->by_message ? "message" : "signal");
	jw_key(jw, "env");
	jw_raw(jw, "{}", 2);
	jw_key(jw, "metadata");
	jw_raw(jw, "{}", 2);
	jw_close(jw, '}');
	write_resources(call, spec, jw);
	jw_close(jw, '}');
}

static int list_specs(struct call *call, const void *in, struct err *err)
{
	struct tools_where where;
	struct jw jw;
	(void)in;
	if (notebook_allowed(err) < 0 || kernels_where(call->server, &where, err) < 0)
		return -1;
	struct list list = kernelspec_list(&where, call->arena);
	const struct kernelspec *specs = list.items;
	const struct kernelspec *usual = kernelspec_find(&where, NULL, call->arena, NULL);
	jw_init(&jw, REPLY_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "default", usual ? usual->name : "python3");
	jw_key(&jw, "kernelspecs");
	jw_open(&jw, '{');
	for (size_t i = 0; i < list.count; i++) {
		jw_key(&jw, specs[i].name);
		write_spec(call, &specs[i], &jw);
	}
	jw_close(&jw, '}');
	jw_close(&jw, '}');
	return notebook_reply(call, &jw, NULL, err);
}

static int get_spec(struct call *call, const void *in, struct err *err)
{
	const struct notebook_kernel *request = in;
	struct tools_where where;
	struct jw jw;
	if (notebook_allowed(err) < 0 || kernels_where(call->server, &where, err) < 0)
		return -1;
	const struct kernelspec *spec = kernelspec_find(&where, request->id, call->arena, err);
	if (!spec)
		return err_set(err, ERR_NOT_FOUND, "there is no kernel '%.80s'", request->id);
	jw_init(&jw, REPLY_MAX);
	write_spec(call, spec, &jw);
	return notebook_reply(call, &jw, NULL, err);
}

/* What else is asked below these is not for JupyterLab's own server. */
static int none(struct call *call, const void *in, struct err *err)
{
	(void)call;
	(void)in;
	return err_set(err, ERR_NOT_FOUND, "there is no such address of Jupyter's API");
}

#define API "/jupyter/api/"
enum { HERE = BARE | INTERNAL, TAKES = HERE | RAW };

static const struct route routes[] = {
	{ "GET", API "kernels", list_kernels, .flags = HERE },
	{ "POST", API "kernels", start_kernel, &notebook_body_schema, .flags = TAKES },
	{ "GET", API "kernels/{id}", get_kernel, &kernel_schema, .flags = HERE },
	{ "DELETE", API "kernels/{id}", end_kernel, &kernel_schema, .flags = HERE },
	{ "POST", API "kernels/{id}/interrupt", interrupt_kernel, &kernel_schema, .flags = HERE },
	{ "POST", API "kernels/{id}/restart", restart_kernel, &kernel_schema, .flags = HERE },
	{ "GET", API "kernelspecs", list_specs, .flags = HERE },
	{ "GET", API "kernelspecs/{id}", get_spec, &kernel_schema, .flags = HERE },
	{ "*", API "kernels/*", none, .flags = HERE },
	{ "*", API "sessions/*", none, .flags = HERE },
	{ "*", API "kernelspecs/*", none, .flags = HERE },
};
const struct route_group notebook_kernels_group = { "notebook", "JupyterLab.", routes,
						    COUNT(routes) };
