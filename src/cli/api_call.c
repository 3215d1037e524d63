#include "cli/api_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "cli/api_words.h"
#include "net/body.h"

enum { TARGET_MAX = 60000, HEADERS_MAX = 8, FORM_MAX = 4 << 20 };

/* ---- the target ---- */

static int put_value(struct buf *to, const json_t *value)
{
	auto_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
						     : json_dumps(value, JSON_ENCODE_ANY);
	return url_encode(to, text ? text : "");
}

static void put_path(const struct api_wish *wish, struct buf *to)
{
	for (const char *at = wish->verb->route->path; *at;) {
		size_t len = strcspn(at, "{");
		buf_add(to, at, len);
		at += len;
		if (!*at)
			break;
		size_t name = strcspn(at, "}") - 1;
		put_value(to, json_object_getn(wish->fields, at + 1, name));
		at += name + 2;
	}
}

static void put_query(const struct api_wish *wish, struct buf *to)
{
	const struct schema *in = wish->verb->in;
	char sign = '?';
	for (size_t i = 0; in && i < in->count; i++) {
		json_t *value = json_object_get(wish->fields, in->fields[i].name);
		if (!value || !(in->fields[i].flags & QUERY))
			continue;
		size_t n = json_is_array(value) ? json_array_size(value) : 1;
		for (size_t k = 0; k < n; k++, sign = '&') {
			buf_printf(to, "%c%s=", sign, in->fields[i].name);
			put_value(to, json_is_array(value) ? json_array_get(value, k) : value);
		}
	}
}

/* ---- the body ---- */

static json_t *body_fields(const struct api_wish *wish)
{
	const struct api_verb *verb = wish->verb;
	json_t *body = json_object();
	if (verb->variant)
		json_object_set_new(body, verb->route->in->tag, json_string(verb->variant->tag));
	for (size_t i = 0; verb->in && i < verb->in->count; i++) {
		const struct field *f = &verb->in->fields[i];
		json_t *value = json_object_get(wish->fields, f->name);
		if (value && !(f->flags & (QUERY | PATH | HEADER)))
			json_object_set(body, f->name, value);
	}
	return body;
}

static char *body_text(const struct api_wish *wish)
{
	json_t *body = body_fields(wish);
	char *text = NULL;
	if (wish->verb->route->flags & RAW) {
		const char *given =
			json_string_value(json_object_iter_value(json_object_iter(body)));
		text = xstrdup(given ? given : "{}");
	} else {
		text = json_dumps(body, JSON_COMPACT);
	}
	json_decref(body);
	return text;
}

static bool is_form(const struct schema *in)
{
	for (size_t i = 0; in && i < in->count; i++)
		if (in->fields[i].type == T_FILE)
			return true;
	return false;
}

/* A name that can stand between quotes in a header. */
static void put_file_name(struct buf *form, const char *path)
{
	const char *slash = strrchr(path, '/');
	for (const char *c = slash ? slash + 1 : path; *c; c++)
		buf_add(form,
			(unsigned char)*c < ' ' || *c == '"' || *c == '\\' || *c == 0x7f ? "_" : c,
			1);
}

struct api_form {
	struct buf text;
	char boundary[48], type[100], tail[64];
	struct client_file file;
};

static void put_part(struct api_form *form, const char *name)
{
	buf_printf(&form->text, "%s--%s\r\nContent-Disposition: form-data; name=\"%s\"",
		   form->text.len ? "\r\n" : "", form->boundary, name);
}

static int put_file(struct api_form *form, const char *name, const char *path, struct err *err)
{
	struct stat st;
	form->file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (form->file.fd < 0 || fstat(form->file.fd, &st) < 0)
		return err_set(err, errno, "'%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "'%s' is not a regular file", path);
	form->file.size = st.st_size;
	put_part(form, name);
	buf_str(&form->text, "; filename=\"");
	put_file_name(&form->text, path);
	buf_str(&form->text, "\"\r\n\r\n");
	return 0;
}

/* The file comes last, for it is sent from where it is. */
static int make_form(const struct api_wish *wish, struct api_form *form, struct err *err)
{
	const struct schema *in = wish->verb->in;
	unsigned long long random[2];
	const struct field *file = NULL;
	if (getrandom(random, sizeof random, 0) != sizeof random)
		abort();
	*form = (struct api_form){ .text = BUF(FORM_MAX),
				   .file = { .fd = -1, .tail = form->tail } };
	snprintf(form->boundary, sizeof form->boundary, "aio-%016llx%016llx", random[0], random[1]);
	snprintf(form->type, sizeof form->type, "multipart/form-data; boundary=%s", form->boundary);
	snprintf(form->tail, sizeof form->tail, "\r\n--%s--\r\n", form->boundary);
	for (size_t i = 0; i < in->count; i++) {
		const struct field *f = &in->fields[i];
		const json_t *value = json_object_get(wish->fields, f->name);
		if (value && f->type == T_FILE)
			file = f;
		else if (value && !(f->flags & (QUERY | PATH | HEADER))) {
			put_part(form, f->name);
			buf_printf(&form->text, "\r\n\r\n%s", json_string_value(value));
		}
	}
	if (file)
		return put_file(form, file->name,
				json_string_value(json_object_get(wish->fields, file->name)), err);
	buf_str(&form->text, form->tail + (form->text.len ? 0 : 2));
	return 0;
}

/* ---- the call ---- */

static int send_it(const struct api_wish *wish, const struct endpoint *at,
		   const struct client_request *request, struct client *client, struct err *err)
{
	char *owned[HEADERS_MAX] = { NULL };
	const char *headers[HEADERS_MAX * 2] = { NULL };
	const struct schema *in = wish->verb->in;
	size_t n = 0, own = 0;
	for (; at->headers[n]; n++)
		headers[n] = at->headers[n];
	for (size_t i = 0; in && i < in->count && own < HEADERS_MAX; i++) {
		const char *value =
			json_string_value(json_object_get(wish->fields, in->fields[i].name));
		if (value && in->fields[i].flags & HEADER && !strpbrk(value, "\r\n"))
			headers[n++] = owned[own++] =
				xasprintf("%s: %s", in->fields[i].name, value);
	}
	struct client_request full = *request;
	full.headers = headers;
	int status = client_ask(client, &full, err);
	for (size_t i = 0; i < own; i++)
		free(owned[i]);
	return status;
}

int api_call(const struct api_wish *wish, const struct endpoint *at, struct client *client,
	     struct err *err)
{
	const struct route *route = wish->verb->route;
	auto_buf struct buf target = BUF(TARGET_MAX);
	struct client_request request = { .method = route->method };
	struct api_form form = { .file = { .fd = -1 } };
	auto_free char *text = NULL;
	buf_str(&target, at->prefix);
	put_path(wish, &target);
	put_query(wish, &target);
	*client = (struct client){ .fd = -1 };
	if (target.full)
		return err_set(err, ERR_INVALID, "the arguments are too long for a URL");
	request.target = target.data;
	int result = 0;
	if (is_form(wish->verb->in)) {
		result = make_form(wish, &form, err);
		request.body = form.text.data;
		request.len = form.text.len;
		request.type = form.type;
		request.file = form.file.fd >= 0 ? &form.file : NULL;
	} else if (body_wanted(route)) {
		request.body = text = body_text(wish);
		request.len = strlen(text);
	}
	if (result == 0)
		result = client_open(client, at->origin, NULL, err);
	if (result == 0)
		result = send_it(wish, at, &request, client, err);
	buf_done(&form.text);
	own_close(&form.file.fd);
	return result;
}
