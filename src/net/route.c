#include "net/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/url.h"

enum { PARAM_MAX = 4096 };

const int64_t latency_bucket_us[LATENCY_BUCKETS] = { 100,    250,     500,      1000,
						     2500,   5000,    10000,    50000,
						     100000, 1000000, 10000000, 60000000 };

static bool is_plain(const struct route_entry *entry)
{
	return !strpbrk(entry->route->path, "{*");
}

/* What is literal comes before a parameter, and that before a star. */
static int rank(char c)
{
	return c == '*' ? 512 : c == '{' ? 256 : (unsigned char)c;
}

static int compare(const void *a, const void *b)
{
	const struct route_entry *x = a, *y = b;
	if (is_plain(x) != is_plain(y))
		return is_plain(x) ? -1 : 1;
	const char *p = x->route->path, *q = y->route->path;
	while (*p && *p == *q) {
		p += *p == '{' ? strcspn(p, "}") : 1; /* the name tells nothing */
		q += *q == '{' ? strcspn(q, "}") : 1;
	}
	return rank(*p) - rank(*q);
}

void router_init(struct router *router, const struct route_group *const *groups)
{
	*router = (struct router){ 0 };
	for (size_t g = 0; groups[g]; g++)
		router->count += groups[g]->count;
	router->entries = xcalloc(router->count, sizeof *router->entries);
	size_t n = 0;
	for (size_t g = 0; groups[g]; g++)
		for (size_t i = 0; i < groups[g]->count; i++) {
			router->entries[n].route = &groups[g]->routes[i];
			router->entries[n++].group = groups[g];
		}
	qsort(router->entries, router->count, sizeof *router->entries, compare);
	while (router->plain < router->count && is_plain(&router->entries[router->plain]))
		router->plain++;
}

void router_done(struct router *router)
{
	free(router->entries);
	*router = (struct router){ 0 };
}

static int add_param(json_t **params, const char *name, size_t name_len, const char *text,
		     size_t len)
{
	auto_buf struct buf value = BUF(PARAM_MAX);
	if (url_decode(&value, text, len) < 0)
		return -1;
	if (!*params)
		*params = json_object();
	return json_object_setn_new(*params, name, name_len,
				    json_stringn(value.data ? value.data : "", value.len));
}

/* Whether a path fits a route's; parameters are added to *params. */
static bool fits(const struct route *route, const char *path, json_t **params)
{
	const char *pattern = route->path;
	while (*pattern) {
		if (*pattern == '*')
			return route->upstream ||
			       add_param(params, "*", 1, path, strlen(path)) == 0;
		if (*pattern == '{') {
			size_t name = strcspn(pattern + 1, "}"), len = strcspn(path, "/");
			if (!len || add_param(params, pattern + 1, name, path, len) < 0)
				return false;
			pattern += name + 2;
			path += len;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return !*path;
}

static bool method_fits(const struct route *route, const char *method)
{
	return !strcmp(route->method, method) || !strcmp(route->method, "*") ||
	       (!strcmp(method, "HEAD") && !strcmp(route->method, "GET"));
}

static void allow_add(char *allow, size_t room, const char *method)
{
	size_t len = strlen(allow);
	if (!strstr(allow, method))
		snprintf(allow + len, room - len, "%s%s%s", len ? ", " : "", method,
			 !strcmp(method, "GET") ? ", HEAD" : "");
}

/* The first of the plain entries with this path, or router->plain. */
static size_t plain_start(const struct router *router, const char *path)
{
	size_t low = 0, high = router->plain;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(router->entries[middle].route->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct route_entry *router_find(struct router *router, const char *method, const char *path,
				json_t **ret_params, char *ret_allow, size_t allow_room)
{
	*ret_params = NULL;
	*ret_allow = 0;
	for (size_t i = plain_start(router, path);
	     i < router->plain && !strcmp(router->entries[i].route->path, path); i++) {
		if (method_fits(router->entries[i].route, method))
			return &router->entries[i];
		allow_add(ret_allow, allow_room, router->entries[i].route->method);
	}
	for (size_t i = router->plain; i < router->count; i++) {
		json_t *params = NULL;
		bool match = fits(router->entries[i].route, path, &params);
		if (match && method_fits(router->entries[i].route, method)) {
			*ret_params = params;
			return &router->entries[i];
		}
		json_decref(params);
		if (match)
			allow_add(ret_allow, allow_room, router->entries[i].route->method);
	}
	return NULL;
}

const struct route *route_flagged(const struct route_group *const *groups, unsigned flag,
				  const char *path)
{
	for (; *groups; groups++)
		for (size_t i = 0; i < (*groups)->count; i++) {
			const struct route *route = &(*groups)->routes[i];
			json_t *params = NULL;
			bool found = (route->flags & flag) == flag && fits(route, path, &params);
			json_decref(params);
			if (found)
				return route;
		}
	return NULL;
}

void route_count(struct route_stats *stats, int status, int64_t us)
{
	int hundred = status / 100 < 6 ? status / 100 : 0;
	size_t bucket = 0;
	while (bucket < LATENCY_BUCKETS && us > latency_bucket_us[bucket])
		bucket++;
	atomic_fetch_add_explicit(&stats->answers[hundred], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&stats->buckets[bucket], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&stats->total_us, (uint64_t)us, memory_order_relaxed);
}
