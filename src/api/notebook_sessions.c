/* Jupyter's API of sessions: which notebook has which kernel. */
#include <string.h>

#include "api/notebook_model.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "code/kernels.h"
#include "net/call.h"
#include "notebook/notebooks.h"

enum { REPLY_MAX = 16 << 20 };

/* -1: its kernel is gone, or was never there. */
static int write_notebook(struct call *call, const struct notebook *notebook, struct jw *jw,
			  struct err *err)
{
	jw_open(jw, '{');
	jw_key_str(jw, "id", notebook->id);
	jw_key_str(jw, "path", notebook->path);
	jw_key_str(jw, "name", notebook->name);
	jw_key_str(jw, "type", notebook->type);
	jw_key(jw, "kernel");
	if (notebook_write_kernel(call, notebook->kernel, jw, err) < 0)
		return -1;
	if (!strcmp(notebook->type, "notebook")) { /* for older clients */
		jw_key(jw, "notebook");
		jw_open(jw, '{');
		jw_key_str(jw, "path", notebook->path);
		jw_key_str(jw, "name", notebook->name);
		jw_close(jw, '}');
	}
	jw_close(jw, '}');
	return 0;
}

static int reply_notebook(struct call *call, const char *id, bool created, struct err *err)
{
	struct notebook notebook;
	struct jw jw;
	if (notebooks_find(id, NULL, call->arena, &notebook, err) < 0)
		return -1;
	jw_init(&jw, REPLY_MAX);
	if (write_notebook(call, &notebook, &jw, err) == 0)
		return notebook_reply(call, &jw,
				      created ? arena_printf(call->arena,
							     "%s/jupyter/api/sessions/%s",
							     notebook_prefix(call), id)
					      : NULL,
				      err);
	jw_done(&jw);
	return -1;
}

static int list_notebooks(struct call *call, const void *in, struct err *err)
{
	struct jw jw;
	struct err gone;
	(void)in;
	if (notebook_allowed(err) < 0)
		return -1;
	struct list list = notebooks_list(call->arena);
	const struct notebook *all = list.items;
	jw_init(&jw, REPLY_MAX);
	jw_open(&jw, '[');
	for (size_t i = 0; i < list.count; i++) {
		struct jw one;
		jw_init(&one, REPLY_MAX);
		if (write_notebook(call, &all[i], &one, &gone) == 0 && !jw_failed(&one))
			jw_raw(&jw, one.out.data, one.out.len);
		jw_done(&one);
	}
	jw_close(&jw, ']');
	return notebook_reply(call, &jw, NULL, err);
}

struct notebook_session {
	const char *path, *name, *type;
	json_t *kernel, *notebook;
};
static const struct field session_fields[] = {
	STR(notebook_session, path, OPTIONAL, "Of the file, from the workspace.", .max_len = 4000),
	STR(notebook_session, name, OPTIONAL, "Of the file.", .max_len = 1024),
	STR(notebook_session, type, OPTIONAL, "`notebook`, `console` or `file`.", .max_len = 100),
	JSON(notebook_session, kernel, OPTIONAL, "Its `id`, or the `name` of a new one."),
	JSON(notebook_session, notebook, OPTIONAL, "`path` and `name`, of older clients."),
};
static const struct schema session_schema =
	SCHEMA(notebook_session, "NotebookSession", session_fields);

struct notebook_named {
	const char *id;
};
static const struct field named_fields[] = {
	STR(notebook_named, id, PATH | REQUIRED, "Its id.", .max_len = 100),
};
static const struct schema named_schema = SCHEMA(notebook_named, "NotebookNamed", named_fields);

static const char *member(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));
	return value && *value ? value : NULL;
}

static const char *path_of(const struct notebook_session *request)
{
	const char *path = request->path ? request->path : member(request->notebook, "path");
	return path && strlen(path) <= 16000 ? path : NULL;
}

static int create(struct call *call, const void *in, struct err *err)
{
	struct notebook_session got = { 0 }, *request = &got;
	struct notebook before;
	struct kernels_info there;
	if (notebook_allowed(err) < 0 || notebook_body(call, in, &session_schema, &got, err) < 0)
		return -1;
	const char *path = path_of(request), *kernel = member(request->kernel, "id"), *id;
	if (!path)
		return err_set(err, ERR_BAD_REQUEST, "Missing field in JSON data: path");
	if (notebooks_find(NULL, path, call->arena, &before, NULL) == 0)
		return reply_notebook(call, before.id, true, err);
	if (kernel ? kernels_look(kernel, call->arena, &there, err)
		   : notebook_start_kernel(call, member(request->kernel, "name"), path, NULL,
					   &kernel, err))
		return -1;
	const char *slash = strrchr(path, '/');
	const struct notebook notebook = {
		.path = path,
		.name = request->name ? request->name
			: slash       ? slash + 1
				      : path,
		.type = request->type ? request->type : "notebook",
		.kernel = kernel,
		.own = !member(request->kernel, "id"),
	};
	return notebooks_add(&notebook, call->arena, &id, err) < 0
		       ? -1
		       : reply_notebook(call, id, true, err);
}

static int get(struct call *call, const void *in, struct err *err)
{
	const struct notebook_named *request = in;
	return notebook_allowed(err) < 0 ? -1 : reply_notebook(call, request->id, false, err);
}

static bool has_kernel(struct call *call, const char *kernel)
{
	struct list list = notebooks_list(call->arena);
	const struct notebook *all = list.items;
	for (size_t i = 0; i < list.count; i++)
		if (!strcmp(all[i].kernel, kernel))
			return true;
	return false;
}

/* Another path or name; or another kernel: then the one before ends, if it was started for this notebook and no
 * other one has it. */
static int change(struct call *call, const void *in, struct err *err)
{
	const char *id = ((const struct notebook_body *)in)->id;
	struct notebook_session got = { 0 }, *request = &got;
	struct notebook before;
	struct kernels_info there;
	if (notebook_allowed(err) < 0 || notebook_body(call, in, &session_schema, &got, err) < 0 ||
	    notebooks_find(id, NULL, call->arena, &before, err) < 0)
		return -1;
	const char *kernel = member(request->kernel, "id");
	const char *kernel_name = member(request->kernel, "name");
	if (kernel && kernels_look(kernel, call->arena, &there, err) < 0)
		return -1;
	if (!kernel && kernel_name &&
	    notebook_start_kernel(call, kernel_name, before.path, NULL, &kernel, err) < 0)
		return -1;
	const struct notebook now = { .id = id,
				      .path = path_of(request),
				      .name = request->name,
				      .type = request->type,
				      .kernel = kernel,
				      .own = !member(request->kernel, "id") };
	if (notebooks_change(&now, err) < 0)
		return -1;
	if (kernel && strcmp(kernel, before.kernel) != 0 && before.own &&
	    !has_kernel(call, before.kernel))
		(void)kernels_close(before.kernel, NULL);
	return reply_notebook(call, id, false, err);
}

/* Its kernel ends with it, unless another notebook has that, too. */
static int delete (struct call *call, const void *in, struct err *err)
{
	const struct notebook_named *request = in;
	struct notebook before;
	if (notebook_allowed(err) < 0 ||
	    notebooks_find(request->id, NULL, call->arena, &before, err) < 0)
		return -1;
	notebooks_remove(request->id);
	if (!has_kernel(call, before.kernel))
		(void)kernels_close(before.kernel, NULL);
	return notebook_reply_nothing(call, err);
}

#define API "/jupyter/api/sessions"
enum { HERE = BARE | INTERNAL, TAKES = HERE | RAW };

static const struct route routes[] = {
	{ "GET", API, list_notebooks, .flags = HERE },
	{ "POST", API, create, &notebook_body_schema, .flags = TAKES },
	{ "GET", API "/{id}", get, &named_schema, .flags = HERE },
	{ "PATCH", API "/{id}", change, &notebook_change_schema, .flags = TAKES },
	{ "DELETE", API "/{id}", delete, &named_schema, .flags = HERE },
};
const struct route_group notebook_sessions_group = { "notebook", "JupyterLab.", routes,
						     COUNT(routes) };
