#include "net/body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "net/conn.h"
#include "net/mime.h"
#include "net/multipart.h"
#include "net/route.h"
#include "net/server.h"

enum { READ_SIZE = 65536, FORM_FIELDS_MAX = 4 << 20 };

bool body_wanted(const struct route *route)
{
	if (!route->in)
		return false;
	if (route->in->variants)
		return true;
	for (size_t i = 0; i < route->in->count; i++)
		if (!(route->in->fields[i].flags & (QUERY | PATH | HEADER)))
			return true;
	return false;
}

static const struct field *file_field(const struct schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->count; i++)
		if (schema->fields[i].type == T_FILE &&
		    (!name || !strcmp(schema->fields[i].name, name)))
			return &schema->fields[i];
	return NULL;
}

/* The client waits for this before it sends the body. */
static int allow_body(struct conn *conn, struct err *err)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	if (!conn->http.head.expect_continue || conn->http.head.minor == 0)
		return 0;
	conn->http.head.expect_continue = false;
	return conn_send_raw(conn, text, sizeof text - 1, err);
}

static void defer_decref(void *value)
{
	json_decref(value);
}

/* ---- JSON ---- */

static int too_large(int64_t cap, struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, "the body is larger than %lld bytes", (long long)cap);
}

static int read_whole(struct conn *conn, struct buf *to, struct err *err)
{
	int64_t cap = (int64_t)to->cap;
	if (conn->http.head.length > cap)
		return too_large(cap, err);
	if (allow_body(conn, err) < 0)
		return -1;
	for (;;) {
		size_t left = to->cap - to->len;
		size_t want = conn->http.head.length > 0 ? (size_t)conn->http.head.length - to->len
							 : READ_SIZE;
		want = want < READ_SIZE ? want : READ_SIZE;
		if (!left) { /* the end of chunks takes one more read */
			char beyond;
			ssize_t n = http_read_body(&conn->http, &beyond, 1, err);
			return n > 0 ? too_large(cap, err) : (int)n;
		}
		char *room = buf_grow(to, want < left ? want : left);
		ssize_t n = http_read_body(&conn->http, room, want < left ? want : left, err);
		if (n <= 0)
			return (int)n;
		to->len += (size_t)n;
	}
}

static void invalid_json(size_t at, const char *why, struct problems *problems)
{
	struct loc body = { .key = "body" }, place = { .up = &body, .index = at };
	char message[200];
	snprintf(message, sizeof message, "JSON decode error: %.150s", why);
	desc_problem(problems, "json_invalid", &place, message, NULL);
}

static bool wants_something(const struct schema *schema)
{
	for (size_t i = 0; i < schema->count; i++)
		if (schema->fields[i].flags & REQUIRED &&
		    !(schema->fields[i].flags & (QUERY | PATH | HEADER)))
			return true;
	return schema->variants != NULL;
}

static int read_json(struct conn *conn, const struct schema *schema, struct arena *arena, void *to,
		     struct problems *problems, struct err *err)
{
	struct loc loc = { .key = "body" };
	const char *type = http_header(&conn->http.head, "content-type");
	auto_buf struct buf text = BUF((size_t)conn->server->options->max_body);
	if (conn->http.head.length != 0 && !mime_is(type, "application/json"))
		return err_set(err, ERR_MEDIA_TYPE, "Content-Type must be application/json%s%.100s",
			       type ? ", not " : "", type ? type : "");
	if (read_whole(conn, &text, err) < 0)
		return -1;
	json_t *value = NULL;
	if (text.len) {
		struct err wrong;
		size_t at = 0;
		value = json_parse_at(text.data, text.len, &at, &wrong);
		if (!value) {
			invalid_json(at, wrong.msg, problems);
			return 0;
		}
		arena_defer(arena, defer_decref, value);
	}
	if (!value || json_is_null(value)) {
		if (wants_something(schema))
			desc_problem(
				problems, value ? "model_attributes_type" : "missing", &loc,
				value ? "Input should be a valid dictionary or object to extract fields from"
				      : "Field required",
				NULL);
		value = json_object();
		arena_defer(arena, defer_decref, value);
		if (problems->count)
			return 0;
	}
	if (!json_is_object(value))
		desc_problem(problems, "model_attributes_type", &loc,
			     "Input should be a valid dictionary or object to extract fields from",
			     value);
	else
		desc_decode(schema, 0, value, &loc, arena, to, problems);
	return 0;
}

/* ---- forms ---- */

struct form {
	struct conn *conn;
	struct arena *arena;
	const struct schema *schema;
	void *to;
	json_t *fields;
	char *name;            /* of the plain field being read */
	struct buf value;      /* its value */
	size_t fields_size;    /* of all plain fields */
	struct upload *upload; /* the file being read */
	bool skip;
};

static void close_upload(void *arg)
{
	struct upload *upload = arg;
	if (upload->fd >= 0)
		close(upload->fd);
}

/* A file without a name; where the file system has no such, one that had it for a moment. */
static int open_spool(const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char name[] = "/tmp/.aio-XXXXXX";
	if (fd < 0 && (fd = mkostemp(name, O_CLOEXEC)) >= 0)
		unlink(name);
	return fd;
}

static int form_part(void *arg, const struct multipart_part *part, struct err *err)
{
	struct form *form = arg;
	const struct field *field = file_field(form->schema, part->name);
	form->upload = NULL;
	form->skip = false;
	if (!field) {
		form->name = arena_strdup(form->arena, part->name);
		form->value.len = 0;
		return 0;
	}
	struct upload **slot = (struct upload **)((char *)form->to + field->at);
	form->skip = *slot != NULL; /* the first of two files counts */
	if (form->skip)
		return 0;
	struct upload *upload = arena_alloc(form->arena, sizeof *upload);
	const char *dir = form->conn->server->options->scratch;
	upload->fd = open_spool(dir);
	if (upload->fd < 0)
		return err_set(err, errno, "no temporary file for the upload in '%s'", dir);
	arena_defer(form->arena, close_upload, upload);
	upload->name = part->filename ? arena_strdup(form->arena, part->filename) : NULL;
	upload->type = arena_strdup(form->arena, part->content_type);
	form->upload = *slot = upload;
	return 0;
}

static int write_upload(struct form *form, const char *data, size_t len, struct err *err)
{
	int64_t cap = form->conn->server->options->max_upload;
	if (form->upload->size + (int64_t)len > cap)
		return err_set(err, ERR_TOO_LARGE, "the upload is larger than %lld bytes",
			       (long long)cap);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(form->upload->fd, data + done, len - done);
		if (n < 0 && errno != EINTR) {
			/* The handler answers: the rest is read and dropped. */
			form->upload->error = errno;
			(void)!ftruncate(form->upload->fd, 0);
			form->skip = true;
			return 0;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	form->upload->size += (int64_t)len;
	return 0;
}

static int form_data(void *arg, const char *data, size_t len, struct err *err)
{
	struct form *form = arg;
	if (form->skip)
		return 0;
	if (form->upload)
		return write_upload(form, data, len, err);
	form->fields_size += len;
	if (form->fields_size > FORM_FIELDS_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "the fields of the form are larger than %d bytes", FORM_FIELDS_MAX);
	return buf_add(&form->value, data, len);
}

static int form_end(void *arg, struct err *err)
{
	struct form *form = arg;
	if (form->skip)
		return 0;
	if (form->upload) {
		if (lseek(form->upload->fd, 0, SEEK_SET) < 0)
			return err_set(err, errno, "the upload");
		return 0;
	}
	json_t *value = json_stringn(form->value.data ? form->value.data : "", form->value.len);
	if (!value)
		return err_set(err, ERR_BAD_REQUEST, "the form's field '%.100s' is not UTF-8",
			       form->name);
	json_object_set_new(form->fields, form->name, value);
	return 0;
}

static int feed_form(struct conn *conn, struct multipart *parser, struct err *err)
{
	auto_free char *data = xmalloc(READ_SIZE);
	int64_t cap = conn->server->options->max_upload, got = 0;
	for (;;) {
		ssize_t n = http_read_body(&conn->http, data, READ_SIZE, err);
		if (n < 0)
			return -1;
		got += n;
		if (got > cap + FORM_FIELDS_MAX) /* parts that nobody wants count too */
			return too_large(cap, err);
		if (n == 0)
			return multipart_finish(parser, err);
		if (multipart_feed(parser, data, (size_t)n, err) < 0)
			return -1;
	}
}

static int read_form(struct conn *conn, const struct schema *schema, struct arena *arena, void *to,
		     struct problems *problems, struct err *err)
{
	static const struct multipart_ops ops = { form_part, form_data, form_end };
	const char *type = http_header(&conn->http.head, "content-type");
	if (!mime_is(type, "multipart/form-data"))
		return err_set(err, ERR_MEDIA_TYPE,
			       "Content-Type must be multipart/form-data%s%.100s",
			       type ? ", not " : "", type ? type : "");
	if (conn->http.head.length > conn->server->options->max_upload + FORM_FIELDS_MAX)
		return too_large(conn->server->options->max_upload, err);
	struct form form = { .conn = conn,
			     .arena = arena,
			     .schema = schema,
			     .to = to,
			     .fields = json_object(),
			     .value = BUF(FORM_FIELDS_MAX) };
	arena_defer(arena, defer_decref, form.fields);
	struct multipart *parser = multipart_new(type, &ops, &form, err);
	int result = parser ? allow_body(conn, err) : -1;
	if (result == 0)
		result = feed_form(conn, parser, err);
	multipart_free(parser);
	buf_done(&form.value);
	if (result == 0)
		desc_decode(schema, 0, form.fields, &(struct loc){ .key = "body" }, arena, to,
			    problems);
	return result;
}

/* ---- as it came ---- */

static void free_text(void *data)
{
	free(data);
}

static int read_raw(struct conn *conn, const struct schema *schema, struct arena *arena, void *to,
		    struct err *err)
{
	const struct field *field = schema->fields;
	while (field->flags & (QUERY | PATH | HEADER))
		field++;
	struct buf text =
		BUF(field->max_len ? field->max_len : (size_t)conn->server->options->max_body);
	int result = read_whole(conn, &text, err);
	if (text.data)
		arena_defer(arena, free_text, text.data);
	if (result == 0)
		*(struct text *)((char *)to + field->at) =
			(struct text){ text.data ? text.data : "", text.len };
	return result;
}

int body_read(struct conn *conn, const struct route *route, struct arena *arena, void *to,
	      struct problems *problems, struct err *err)
{
	if (route->flags & RAW)
		return read_raw(conn, route->in, arena, to, err);
	return (file_field(route->in, NULL) ? read_form : read_json)(conn, route->in, arena, to,
								     problems, err);
}
