#include "mcp/bridge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "mcp/exchange.h"
#include "net/call.h"
#include "net/offline.h"
#include "net/route.h"
#include "net/server.h"

const struct route *bridge_find(const struct route_group *const *groups, const char *route)
{
	const char *space = strchr(route, ' ');
	size_t method = space ? (size_t)(space - route) : 0;
	for (; space && *groups; groups++)
		for (size_t i = 0; i < (*groups)->count; i++) {
			const struct route *at = &(*groups)->routes[i];
			if (at->handle && !strcmp(at->path, space + 1) &&
			    strlen(at->method) == method && !strncmp(at->method, route, method))
				return at;
		}
	return NULL;
}

/* ---- a sink that remembers ---- */

struct memory_sink {
	struct sink sink; /* first */
	struct bridge_answer *answer;
};

static const char *header(const struct answer *answer, const char *name)
{
	for (size_t i = 0; i < answer->header_count; i++)
		if (!strcmp(answer->headers[i].name, name))
			return answer->headers[i].value;
	return "";
}

static struct picture_size size_in(const struct answer *answer, const char *width,
				   const char *height)
{
	return (struct picture_size){ atoi(header(answer, width)), atoi(header(answer, height)) };
}

static void take_headers(struct bridge_answer *to, const struct answer *answer)
{
	double scale = atof(header(answer, "x-image-scale"));
	to->image = size_in(answer, "x-image-width", "x-image-height");
	to->whole = *header(answer, "x-page-width")
			    ? size_in(answer, "x-page-width", "x-page-height")
			    : size_in(answer, "x-screen-width", "x-screen-height");
	to->scale = scale > 0 ? scale : 1;
	snprintf(to->notice, sizeof to->notice, "%s", header(answer, "x-image-notice"));
}

static int memory_begin(struct sink *sink, const struct answer *answer, struct err *err)
{
	struct bridge_answer *to = ((struct memory_sink *)sink)->answer;
	if (sink->begun)
		return err_set(err, ERR_INTERNAL, "the answer has already begun");
	sink->begun = true;
	to->status = answer->status;
	snprintf(to->type, sizeof to->type, "%s", answer->type ? answer->type : "");
	take_headers(to, answer);
	return 0;
}

static int memory_write(struct sink *sink, const void *data, size_t len, struct err *err)
{
	struct bridge_answer *to = ((struct memory_sink *)sink)->answer;
	if (buf_add(&to->body, data, len) == 0)
		return 0;
	return err_set(err, ERR_TOO_LARGE, "the answer is larger than %d MiB: ask for less",
		       BRIDGE_BODY_MAX >> 20);
}

static int memory_file(struct sink *sink, int fd, int64_t at, int64_t len, struct err *err)
{
	char piece[65536];
	while (len > 0) {
		ssize_t n = pread(fd, piece, (size_t)(len < 65536 ? len : 65536), at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n ? errno : EIO, "reading the file");
		if (memory_write(sink, piece, (size_t)n, err) < 0)
			return -1;
		at += n;
		len -= n;
	}
	return 0;
}

/* ---- the fields ---- */

/* FastAPI's list of problems as one line: "command: Field required". */
static int tell_problems(struct problems *problems, struct err *err)
{
	struct buf text = BUF(400);
	buf_str(&problems->json, "]");
	json_t *list = json_parse(problems->json.data, problems->json.len, NULL), *problem, *part;
	size_t i, j;
	json_array_foreach(list, i, problem) {
		const json_t *loc = json_object_get(problem, "loc");
		if (i)
			buf_str(&text, "; ");
		json_array_foreach(loc, j, part) {
			if (j && json_is_integer(part))
				buf_printf(&text, "[%lld]", (long long)json_integer_value(part));
			else if (j)
				buf_printf(&text, "%s%s", j > 1 ? "." : "",
					   json_string_value(part));
		}
		buf_printf(&text, "%s%s", json_array_size(loc) > 1 ? ": " : "",
			   json_string_value(json_object_get(problem, "msg")));
	}
	err_set(err, ERR_INVALID, "Invalid arguments: %s", text.data ? text.data : "");
	buf_done(&text);
	buf_done(&problems->json);
	json_decref(list);
	return -1;
}

int bridge_decode(const struct schema *schema, const json_t *args, struct arena *arena, void **ret,
		  struct err *err)
{
	static const struct {
		unsigned place;
		const char *name;
	} places[] = { { 0, "body" }, { PATH, "path" }, { QUERY, "query" } };
	struct problems problems = { 0 };
	*ret = arena_alloc(arena, schema->size);
	json_t *none = json_object();
	for (size_t i = 0; i < COUNT(places); i++)
		desc_decode(schema, places[i].place, args, &(struct loc){ .key = places[i].name },
			    arena, *ret, &problems);
	if (!schema->variants)
		desc_decode(schema, HEADER, none, &(struct loc){ .key = "header" }, arena, *ret,
			    &problems);
	json_decref(none);
	return problems.count ? tell_problems(&problems, err) : 0;
}

int bridge_call(struct exchange *ex, const struct route *route, const json_t *args,
		struct bridge_answer *ret, struct err *err)
{
	void *in = NULL;
	*ret = (struct bridge_answer){ .body = BUF(BRIDGE_BODY_MAX) };
	if (route->in && bridge_decode(route->in, args, &ex->arena, &in, err) < 0)
		return -1;
	struct memory_sink sink = {
		.sink = { memory_begin, memory_write, memory_file, ex->cancel_fds[0], false },
		.answer = ret,
	};
	struct call call = { .route = route,
			     .server = ex->from.server,
			     .arena = &ex->arena,
			     .sink = &sink.sink,
			     .id = "mcp",
			     .base_url = ex->from.base_url,
			     .inside = ex->from.inside,
			     .began = offline_moment() };
	int result = route->handle(&call, in, err);
	if (result == 0 && !sink.sink.begun)
		result = call_reply(&call, NULL, err);
	if (result < 0 && ret->body.full) /* the writer only knows that it cannot go on */
		err_set(err, ERR_TOO_LARGE, "the answer is larger than %d MiB: ask for less",
			BRIDGE_BODY_MAX >> 20);
	if (result < 0)
		buf_done(&ret->body);
	return result;
}
