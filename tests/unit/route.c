#include "net/route.h"

#include <stdlib.h>

#include "base/own.h"
#include "tap.h"

static int nothing(struct call *call, const void *in, struct err *err)
{
	(void)call;
	(void)in;
	(void)err;
	return 0;
}

static const struct route first[] = {
	{ "GET", "/", nothing },
	{ "GET", "/v1/shell/{id}", nothing },
	{ "DELETE", "/v1/shell/{id}", nothing },
	{ "GET", "/v1/shell/list", nothing },
	{ "POST", "/v1/shell/exec", nothing },
	{ "PUT", "/v1/shell/exec", nothing },
	{ "GET", "/v1/shell/{id}/output", nothing },
	{ "GET", "/v1/shell/{a}/{what}", nothing },
	{ "GET", "/static/*", nothing },
	{ "GET", "/static/{name}", nothing },
	{ "POST", "/static/special/{name}", nothing },
	{ "GET", "/static/deep/below/*", nothing },
};
static const struct route second[] = {
	{ "GET", "/a/{x}/c", nothing },   { "GET", "/a/b/{y}", nothing },
	{ "GET", "/a/{x}-{y}", nothing }, { "GET", "/{any}/end", nothing },
	{ "GET", "/v10", nothing },       { "GET", "/v1", nothing },
	{ "POST", "/files/*", nothing },  { "PATCH", "/files/{id}", nothing },
};
static const struct route_group group1 = { "one", "", first, COUNT(first) };
static const struct route_group group2 = { "two", "", second, COUNT(second) };
static const struct route_group *const groups[] = { &group1, &group2, NULL };

/* "METHOD PATTERN name=value …" of what was found, else "allow: …". */
static void check_find(struct router *router, const char *method, const char *path,
		       const char *want)
{
	json_t *params;
	char allow[128];
	struct route_entry *entry = router_find(router, method, path, &params, allow, sizeof allow);
	auto_buf struct buf text = BUF(20000);
	const char *name;
	json_t *value;
	if (entry)
		buf_printf(&text, "%s %s", entry->route->method, entry->route->path);
	else
		buf_printf(&text, "allow: %s", allow);
	json_object_foreach(params, name, value)
		buf_printf(&text, " %s=%s", name, json_string_value(value));
	if (!CHECK_STR(text.data, want))
		printf("# for %s %s\n", method, path);
	json_decref(params);
}

static void finding(struct router *router)
{
	static const char *const rows[][3] = {
		{ "GET", "/", "GET /" },
		{ "GET", "/v1", "GET /v1" },
		{ "GET", "/v10", "GET /v10" },
		{ "GET", "/v1/", "allow: " },
		{ "GET", "", "allow: " },
		{ "GET", "/V1", "allow: " },
		{ "GET", "/v1/shell/list", "GET /v1/shell/list" },
		{ "GET", "/v1/shell/lists", "GET /v1/shell/{id} id=lists" },
		{ "GET", "/v1/shell/", "allow: " },
		{ "GET", "/v1/shell/a/output", "GET /v1/shell/{id}/output id=a" },
		{ "GET", "/v1/shell/a/outputs", "GET /v1/shell/{a}/{what} a=a what=outputs" },
		{ "GET", "/v1/shell/a/b/c", "allow: " },
		{ "GET", "/v1/shell//output", "allow: " },
		/* A plain path that lacks the method leaves it to a pattern. */
		{ "DELETE", "/v1/shell/list", "DELETE /v1/shell/{id} id=list" },
		{ "POST", "/v1/shell/exec", "POST /v1/shell/exec" },
		{ "GET", "/v1/shell/exec", "GET /v1/shell/{id} id=exec" },
		/* What is literal is nearer than a parameter, and a parameter than a star. */
		{ "GET", "/a/b/c", "GET /a/b/{y} y=c" },
		{ "GET", "/a/x/c", "GET /a/{x}/c x=x" },
		{ "GET", "/static/x", "GET /static/{name} name=x" },
		{ "GET", "/static/x/y", "GET /static/* *=x/y" },
		{ "GET", "/static/", "GET /static/* *=" },
		{ "GET", "/static", "allow: " },
		{ "GET", "/static/deep/below/x", "GET /static/deep/below/* *=x" },
		{ "GET", "/static/deep/x", "GET /static/* *=deep/x" },
		{ "POST", "/static/special/x", "POST /static/special/{name} name=x" },
		{ "GET", "/static/special/x", "GET /static/* *=special/x" },
		{ "GET", "/x/end", "GET /{any}/end any=x" },
		/* HEAD is GET without the body. */
		{ "HEAD", "/v1/shell/list", "GET /v1/shell/list" },
		{ "HEAD", "/v1/shell/x", "GET /v1/shell/{id} id=x" },
		{ "HEAD", "/files/x", "allow: PATCH, POST" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_find(router, rows[i][0], rows[i][1], rows[i][2]);
}

static void allowing(struct router *router)
{
	static const char *const rows[][3] = {
		{ "POST", "/", "allow: GET, HEAD" },
		{ "PATCH", "/v1/shell/exec", "allow: POST, PUT, DELETE, GET, HEAD" },
		{ "OPTIONS", "/v1/shell/x", "allow: DELETE, GET, HEAD" },
		{ "POST", "/v1/shell/x", "allow: DELETE, GET, HEAD" },
		{ "GET", "/files/x", "allow: PATCH, POST" },
		{ "GET", "/none", "allow: " },
		{ "get", "/v1", "allow: GET, HEAD" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		json_t *params;
		char allow[128];
		CHECK(!router_find(router, rows[i][0], rows[i][1], &params, allow, sizeof allow));
		CHECK(!params);
		/* In any order, each once. */
		size_t want = 0, got = 0;
		for (const char *at = rows[i][2]; *at; at++)
			want += (unsigned char)*at;
		for (const char *at = allow; *at; at++)
			got += (unsigned char)*at;
		for (const char *at = "allow: "; *at; at++)
			got += (unsigned char)*at;
		if (!CHECK(want == got))
			printf("# %s, not %s\n", allow, rows[i][2]);
	}
	char little[8];
	json_t *params;
	CHECK(!router_find(router, "PATCH", "/v1/shell/exec", &params, little, sizeof little));
	CHECK(strlen(little) < sizeof little);
}

static void decoding(struct router *router)
{
	check_find(router, "GET", "/v1/shell/a%20b%2Fc", "GET /v1/shell/{id} id=a b/c");
	check_find(router, "GET", "/v1/shell/%C3%A9+%2b", "GET /v1/shell/{id} id=\xc3\xa9++");
	check_find(router, "GET", "/static/a%20b/%2e%2e/c", "GET /static/* *=a b/../c");
	check_find(router, "GET", "/v1/shell/%2e%2e", "GET /v1/shell/{id} id=..");
	check_find(router, "GET", "/v1/shell/%00", "allow: ");
	check_find(router, "GET", "/v1/shell/%", "allow: ");
	check_find(router, "GET", "/v1/shell/%4", "allow: ");
	check_find(router, "GET", "/v1/shell/%zz", "allow: ");
	check_find(router, "GET", "/v1/shell/%ff", "allow: ");
	check_find(router, "GET", "/v1/shell/\xff", "allow: ");
	check_find(router, "GET", "/v1/shell/a/%ff", "allow: ");
	auto_buf struct buf path = BUF(20000), want = BUF(20000);
	buf_str(&path, "/v1/shell/");
	buf_str(&want, "GET /v1/shell/{id} id=");
	for (int i = 0; i < 4096; i++) {
		buf_str(&path, "x");
		buf_str(&want, "x");
	}
	check_find(router, "GET", path.data, want.data);
	buf_str(&path, "x");
	check_find(router, "GET", path.data, "allow: ");
}

static void counting(void)
{
	struct route_stats stats = { 0 };
	route_count(&stats, 200, 100);
	route_count(&stats, 204, 101);
	route_count(&stats, 101, 0);
	route_count(&stats, 404, 1000000000);
	route_count(&stats, 507, 60000000);
	route_count(&stats, 0, 0);
	route_count(&stats, 999, 0);
	CHECK(stats.answers[2] == 2 && stats.answers[1] == 1 && stats.answers[4] == 1);
	CHECK(stats.answers[5] == 1 && stats.answers[0] == 2 && stats.answers[3] == 0);
	CHECK(stats.buckets[0] == 4 && stats.buckets[1] == 1);
	CHECK(stats.buckets[LATENCY_BUCKETS] == 1 && stats.buckets[LATENCY_BUCKETS - 1] == 1);
	CHECK(stats.total_us == 100 + 101 + 1000000000 + 60000000);
	bool rising = true;
	for (size_t i = 1; i < LATENCY_BUCKETS; i++)
		rising = rising && latency_bucket_us[i] > latency_bucket_us[i - 1];
	CHECK(rising);
}

int main(void)
{
	struct router router;
	router_init(&router, groups);
	CHECK(router.count == COUNT(first) + COUNT(second));
	finding(&router);
	allowing(&router);
	decoding(&router);
	router_done(&router);
	CHECK(!router.entries && !router.count);
	static const struct route_group *const none[] = { NULL };
	router_init(&router, none);
	check_find(&router, "GET", "/", "allow: ");
	router_done(&router);
	counting();
	return tap_done();
}
