/* A method and a path: what is found must fit its pattern, and never depend on how it is spelled. */
#include "net/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const struct route routes[] = {
	{ "GET", "/" },
	{ "GET", "/v1/shell/{id}" },
	{ "DELETE", "/v1/shell/{id}" },
	{ "POST", "/v1/shell/exec" },
	{ "GET", "/v1/shell/{id}/ws" },
	{ "GET", "/v1/{a}/{b}/{c}" },
	{ "GET", "/static/*" },
	{ "PUT", "/static/{x}" },
	{ "GET", "/{x}-{y}" },
	{ "PATCH", "/*" },
};
static const struct route_group group = { "fuzz", "", routes, COUNT(routes) };
static const struct route_group *const groups[] = { &group, NULL };

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The pattern with the parameters, encoded again, in their places. */
static void rebuild(const char *pattern, const json_t *params, struct buf *to)
{
	for (const char *at = pattern; *at; at++) {
		size_t len = *at == '{' ? strcspn(at + 1, "}") : 1;
		const json_t *value = *at == '{'   ? json_object_getn(params, at + 1, len)
				      : *at == '*' ? json_object_get(params, "*")
						   : NULL;
		must((*at == '{' || *at == '*') == (value != NULL));
		if (!value) {
			buf_add(to, at, 1);
			continue;
		}
		must(strlen(json_string_value(value)) == json_string_length(value));
		must(*at == '*' || json_string_length(value) > 0);
		url_encode(to, json_string_value(value));
		at += *at == '{' ? len + 1 : 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const char *const methods[] = { "GET", "HEAD",  "POST",    "DELETE",
					       "PUT", "PATCH", "OPTIONS", "" };
	static struct router router;
	if (!router.entries)
		router_init(&router, groups);
	if (!size)
		return 0;
	const char *method = methods[input[0] % COUNT(methods)];
	auto_free char *path = xstrndup((const char *)input + 1, size - 1);
	char allow[128];
	json_t *params, *same;
	const struct route_entry *entry =
		router_find(&router, method, path, &params, allow, sizeof allow);
	must(strlen(allow) < sizeof allow && (entry || !params));
	if (entry) {
		auto_buf struct buf plain = BUF(1 << 20);
		rebuild(entry->route->path, params, &plain);
		const struct route_entry *again =
			router_find(&router, method, plain.data, &same, allow, sizeof allow);
		/* An encoded slash of a star's rest is none any more: then another pattern may be nearer. */
		if (!strchr(entry->route->path, '*') && !strstr(entry->route->path, "}-{"))
			must(again == entry && (!params || json_equal(params, same)));
		json_decref(same);
	}
	json_decref(params);
	return 0;
}
