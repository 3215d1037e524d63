#include "outbound/outbound.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "config/config.h"
#include "net/proxy.h"
#include "net/server.h"
#include "outbound/forward.h"
#include "outbound/upstream_proxy.h"
#include "proc/environment.h"

enum { TROUBLES_MAX = 32, LISTENERS_MAX = 2 };

static struct {
	struct server *server;
	pthread_mutex_t turn; /* of who changes something */
	pthread_mutex_t lock; /* of what follows */
	struct rule_mapping *mappings;
	struct rule_pattern *excludes, *includes;
	size_t mapping_count, exclude_count, include_count;
	struct upstream_proxy *upstream; /* NULL: none */
	bool inherited; /* the environment of the server names a proxy, or hosts without one */
	bool chosen;    /* somebody has chosen another configuration than that */
	char *troubles[TROUBLES_MAX]; /* of the configuration that it began with */
	size_t trouble_count;
	const char *reported;
	void (*changed[LISTENERS_MAX])(void);
	size_t changed_count;
} outbound = { .turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the proxy ---- */

int outbound_port(void)
{
	return outbound.server ? (int)outbound.server->config->proxy_port : 0;
}

static bool listens(void)
{
	return outbound.server && atomic_load(&outbound.server->proxy_fd) >= 0;
}

/* Whether requests would go another way than that of the server's environment. */
static bool is_configured(void)
{
	pthread_mutex_lock(&outbound.lock);
	bool own = outbound.upstream && !outbound.inherited;
	bool configured = outbound.mapping_count || own || (outbound.inherited && outbound.chosen);
	pthread_mutex_unlock(&outbound.lock);
	return configured;
}

bool outbound_is_used(void)
{
	return listens() && is_configured();
}

static int listen_if_not(struct err *err)
{
	return listens() ? 0
			 : server_open_proxy(outbound.server, outbound_port(), forward_serve, err);
}

/* Programs that are started from now on, and requests of our own, go by it. */
static void tell_programs(void)
{
	static char url[64];
	if (!*url)
		snprintf(url, sizeof url, "http://127.0.0.1:%d", outbound_port());
	const char *used = outbound_is_used() ? url : NULL;
	environment_use_proxy(used);
	proxy_use(used);
}

void outbound_on_change(void (*changed)(void))
{
	if (outbound.changed_count < LISTENERS_MAX)
		outbound.changed[outbound.changed_count++] = changed;
}

/* With the turn, after a change. */
static void announce(void)
{
	struct err err;
	if (listen_if_not(&err) < 0 && is_configured())
		log_warn("the outbound proxy is not in use: %s", err.msg);
	tell_programs();
	forward_changed();
	for (size_t i = 0; i < outbound.changed_count; i++)
		outbound.changed[i]();
}

/* ---- where a request goes ---- */

static struct outbound_mapping *show_mapping(const struct rule_mapping *mapping,
					     struct arena *arena)
{
	struct outbound_mapping *shown = arena_alloc(arena, sizeof *shown);
	*shown = (struct outbound_mapping){ arena_strdup(arena, mapping->source),
					    arena_strdup(arena, mapping->target),
					    arena_strdup(arena, mapping->host),
					    arena_strdup(arena, mapping->path), outbound_port() };
	return shown;
}

static void go_mapped(const struct rule_mapping *mapping, const struct rule_url *url,
		      struct arena *arena, struct outbound_way *ret)
{
	auto_free char *path = url->path ? rule_mapping_path(mapping, url->path) : NULL;
	*ret = (struct outbound_way){ .kind = WAY_MAPPED,
				      .host = arena_strdup(arena, mapping->to_host),
				      .port = mapping->to_port,
				      .path = path ? arena_strdup(arena, path) : NULL,
				      .mapping = show_mapping(mapping, arena),
				      .why = arena_printf(arena,
							  "The mapping of '%s' leads to '%s'.",
							  mapping->source, mapping->target) };
}

static void unref_upstream(void *upstream)
{
	upstream_proxy_unref(upstream);
}

static void go_upstream(struct arena *arena, struct outbound_way *ret)
{
	struct upstream_proxy *upstream = upstream_proxy_ref(outbound.upstream);
	arena_defer(arena, unref_upstream, upstream);
	*ret = (struct outbound_way){ .kind = WAY_UPSTREAM,
				      .host = upstream_proxy_host(upstream),
				      .port = upstream_proxy_port(upstream),
				      .upstream = upstream,
				      .why = arena_printf(arena, "The upstream proxy %s takes it.",
							  upstream_proxy_address(upstream)) };
}

/* Names of this machine's own loopback are never for another to look up. */
static bool is_loopback(const char *host)
{
	static const char name[] = "localhost";
	size_t len = strlen(host), own = sizeof name - 1;
	return !strncmp(host, "127.", 4) || !strcmp(host, "::1") ||
	       (len >= own && !strcmp(host + len - own, name) &&
		(len == own || host[len - own - 1] == '.'));
}

/* Why no proxy takes it; NULL: one does. */
static const char *why_direct(const struct rule_url *url, struct arena *arena)
{
	const struct rule_pattern *excluded =
		rule_pattern_find(outbound.excludes, outbound.exclude_count, url->host, url->port);
	if (excluded)
		return arena_printf(arena, "The exclude '%s' has it go directly.", excluded->text);
	if (!outbound.upstream)
		return "It goes directly: there is no upstream proxy.";
	if (is_loopback(url->host))
		return "It goes directly: the host is the sandbox itself.";
	if (outbound.include_count &&
	    !rule_pattern_find(outbound.includes, outbound.include_count, url->host, url->port))
		return "It goes directly: PROXY_INCLUDE does not name the host.";
	return NULL;
}

void outbound_find(const struct rule_url *asked, struct arena *arena, struct outbound_way *ret)
{
	struct rule_url url = *asked;
	size_t len = strlen(url.host);
	char *host = arena_strndup(arena, url.host, len);
	if (len > 1 && host[len - 1] == '.') /* the same name, whole */
		host[len - 1] = 0;
	url.host = host;
	pthread_mutex_lock(&outbound.lock);
	const struct rule_mapping *mapping =
		rule_mapping_find(outbound.mappings, outbound.mapping_count, &url);
	const char *direct = mapping ? NULL : why_direct(&url, arena);
	if (mapping)
		go_mapped(mapping, &url, arena, ret);
	else if (direct)
		*ret = (struct outbound_way){
			WAY_DIRECT, host, url.port, NULL, NULL, NULL, direct
		};
	else
		go_upstream(arena, ret);
	const struct rule_mapping *missed =
		mapping ? NULL
			: rule_mapping_missed(outbound.mappings, outbound.mapping_count, &url);
	if (missed)
		ret->why =
			arena_printf(arena,
				     "%s The mapping of '%s' has a path, which is encrypted here.",
				     ret->why, missed->source);
	pthread_mutex_unlock(&outbound.lock);
}

bool outbound_is_current(const struct rule_url *url, const struct outbound_way *way)
{
	struct arena arena = { 0 };
	struct outbound_way now;
	outbound_find(url, &arena, &now);
	bool same = now.kind == way->kind && now.upstream == way->upstream &&
		    now.port == way->port && !strcmp(now.host, way->host);
	arena_done(&arena);
	return same;
}

/* ---- mappings ---- */

static size_t find_mapping(const struct rule_mapping *like)
{
	size_t i = 0;
	while (i < outbound.mapping_count && !rule_mapping_same(&outbound.mappings[i], like))
		i++;
	return i;
}

/* Takes the mapping. */
static int put_mapping(struct rule_mapping *mapping, struct err *err)
{
	pthread_mutex_lock(&outbound.lock);
	size_t at = find_mapping(mapping);
	bool fits = at < OUTBOUND_RULES_MAX;
	if (at < outbound.mapping_count) {
		rule_mapping_done(&outbound.mappings[at]);
	} else if (fits) {
		outbound.mappings =
			xrealloc(outbound.mappings, (at + 1) * sizeof *outbound.mappings);
		outbound.mapping_count++;
	}
	if (fits)
		outbound.mappings[at] = *mapping;
	outbound.chosen = true;
	pthread_mutex_unlock(&outbound.lock);
	if (fits)
		return 0;
	rule_mapping_done(mapping);
	return err_set(err, ERR_LIMIT, "there are %d mappings already: remove one first",
		       OUTBOUND_RULES_MAX);
}

int outbound_map(const char *source, const char *target, struct arena *arena,
		 struct outbound_mapping *ret, struct err *err)
{
	struct rule_mapping mapping = { 0 };
	if (rule_mapping_parse(source, target, &mapping, err) < 0)
		return -1;
	*ret = *show_mapping(&mapping, arena);
	pthread_mutex_lock(&outbound.turn);
	int result = put_mapping(&mapping, err);
	if (result == 0)
		announce();
	pthread_mutex_unlock(&outbound.turn);
	return result;
}

static bool take_mapping(const struct rule_mapping *like)
{
	pthread_mutex_lock(&outbound.lock);
	size_t at = find_mapping(like);
	bool found = at < outbound.mapping_count;
	if (found) {
		rule_mapping_done(&outbound.mappings[at]);
		outbound.mapping_count--;
		memmove(&outbound.mappings[at], &outbound.mappings[at + 1],
			(outbound.mapping_count - at) * sizeof *outbound.mappings);
	}
	pthread_mutex_unlock(&outbound.lock);
	return found;
}

int outbound_unmap(const char *source, struct err *err)
{
	struct rule_mapping like = { 0 };
	if (rule_mapping_parse(source, "1", &like, err) < 0)
		return -1;
	pthread_mutex_lock(&outbound.turn);
	bool found = take_mapping(&like);
	if (found)
		announce();
	pthread_mutex_unlock(&outbound.turn);
	rule_mapping_done(&like);
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "there is no mapping of '%s'", source);
}

struct list outbound_mappings(struct arena *arena)
{
	pthread_mutex_lock(&outbound.lock);
	size_t count = outbound.mapping_count;
	struct outbound_mapping *all = arena_alloc(arena, (count + 1) * sizeof *all);
	for (size_t i = 0; i < count; i++)
		all[i] = *show_mapping(&outbound.mappings[i], arena);
	pthread_mutex_unlock(&outbound.lock);
	return (struct list){ count, all };
}

/* ---- hosts that are reached directly ---- */

static size_t find_exclude(const char *text)
{
	size_t i = 0;
	while (i < outbound.exclude_count && strcmp(outbound.excludes[i].text, text) != 0)
		i++;
	return i;
}

static void add_pattern(struct rule_pattern **to, size_t *count, const struct rule_pattern *one)
{
	*to = xrealloc(*to, (*count + 1) * sizeof **to);
	(*to)[(*count)++] = *one;
}

/* Takes the pattern. */
static int put_exclude(struct rule_pattern *pattern, struct err *err)
{
	pthread_mutex_lock(&outbound.lock);
	size_t at = find_exclude(pattern->text);
	bool known = at < outbound.exclude_count, fits = at < OUTBOUND_RULES_MAX;
	if (!known && fits)
		add_pattern(&outbound.excludes, &outbound.exclude_count, pattern);
	else
		rule_pattern_done(pattern);
	outbound.chosen = true;
	pthread_mutex_unlock(&outbound.lock);
	return fits ? 0
		    : err_set(err, ERR_LIMIT, "there are %d excludes already: remove one first",
			      OUTBOUND_RULES_MAX);
}

int outbound_exclude(const char *text, struct err *err)
{
	struct rule_pattern pattern = { 0 };
	if (rule_pattern_parse(text, &pattern, err) < 0)
		return -1;
	pthread_mutex_lock(&outbound.turn);
	int result = put_exclude(&pattern, err);
	if (result == 0)
		announce();
	pthread_mutex_unlock(&outbound.turn);
	return result;
}

int outbound_include_again(const char *text, struct err *err)
{
	pthread_mutex_lock(&outbound.turn);
	pthread_mutex_lock(&outbound.lock);
	size_t at = find_exclude(text);
	bool found = at < outbound.exclude_count;
	if (found) {
		rule_pattern_done(&outbound.excludes[at]);
		outbound.exclude_count--;
		memmove(&outbound.excludes[at], &outbound.excludes[at + 1],
			(outbound.exclude_count - at) * sizeof *outbound.excludes);
		outbound.chosen = true;
	}
	pthread_mutex_unlock(&outbound.lock);
	if (found)
		announce();
	pthread_mutex_unlock(&outbound.turn);
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "there is no exclude '%s'", text);
}

struct list outbound_excludes(struct arena *arena)
{
	pthread_mutex_lock(&outbound.lock);
	size_t count = outbound.exclude_count;
	const char **all = arena_alloc(arena, (count + 1) * sizeof *all);
	for (size_t i = 0; i < count; i++)
		all[i] = arena_strdup(arena, outbound.excludes[i].text);
	pthread_mutex_unlock(&outbound.lock);
	return (struct list){ count, all };
}

/* ---- the upstream proxy ---- */

static void show_upstream(struct upstream_proxy *upstream, struct arena *arena,
			  struct outbound_upstream *ret)
{
	auto_free char *user = upstream_proxy_user(upstream);
	*ret = (struct outbound_upstream){
		.addr = arena_strdup(arena, upstream_proxy_address(upstream)),
		.username = user ? arena_strdup(arena, user) : NULL,
		.password = user ? "***" : NULL,
	};
}

/* Takes it; NULL: none. Of the environment's, nothing is left then. */
static void put_upstream(struct upstream_proxy *upstream)
{
	pthread_mutex_lock(&outbound.lock);
	struct upstream_proxy *before = outbound.upstream;
	outbound.upstream = upstream;
	outbound.chosen = true;
	pthread_mutex_unlock(&outbound.lock);
	upstream_proxy_unref(before);
}

int outbound_set_upstream(const char *text, const char *auth_cmd, struct arena *arena,
			  struct outbound_upstream *ret, struct err *err)
{
	struct upstream_proxy *upstream = upstream_proxy_new(outbound.server, text, auth_cmd, err);
	if (!upstream)
		return -1;
	auto_free char *shown = upstream_proxy_authorization(upstream, NULL, err);
	if (!shown && err->code) {
		upstream_proxy_unref(upstream);
		return -1;
	}
	show_upstream(upstream, arena, ret);
	pthread_mutex_lock(&outbound.turn);
	put_upstream(upstream);
	announce();
	pthread_mutex_unlock(&outbound.turn);
	return 0;
}

void outbound_remove_upstream(void)
{
	pthread_mutex_lock(&outbound.turn);
	put_upstream(NULL);
	announce();
	pthread_mutex_unlock(&outbound.turn);
}

/* A reference of the one there is; NULL: none. */
static struct upstream_proxy *current_upstream(void)
{
	pthread_mutex_lock(&outbound.lock);
	struct upstream_proxy *upstream = outbound.upstream ? upstream_proxy_ref(outbound.upstream)
							    : NULL;
	pthread_mutex_unlock(&outbound.lock);
	return upstream;
}

bool outbound_upstream(struct arena *arena, struct outbound_upstream *ret)
{
	struct upstream_proxy *upstream = current_upstream();
	if (!upstream)
		return false;
	show_upstream(upstream, arena, ret);
	upstream_proxy_unref(upstream);
	return true;
}

/* ---- health ---- */

void outbound_report(const char *trouble)
{
	pthread_mutex_lock(&outbound.lock);
	outbound.reported = trouble;
	pthread_mutex_unlock(&outbound.lock);
}

bool outbound_health(struct arena *arena, struct list *ret)
{
	const char **all = arena_alloc(arena, (TROUBLES_MAX + 3) * sizeof *all);
	size_t count = 0;
	struct err err;
	char why[512];
	pthread_mutex_lock(&outbound.turn);
	bool alive = listen_if_not(&err) == 0;
	if (alive)
		tell_programs();
	pthread_mutex_unlock(&outbound.turn);
	if (!alive)
		all[count++] = arena_strdup(arena, err.msg);
	struct upstream_proxy *upstream = current_upstream();
	if (upstream && upstream_proxy_trouble(upstream, why, sizeof why))
		all[count++] = arena_strdup(arena, why);
	upstream_proxy_unref(upstream);
	pthread_mutex_lock(&outbound.lock);
	if (outbound.reported)
		all[count++] = outbound.reported;
	for (size_t i = 0; i < outbound.trouble_count; i++)
		all[count++] = arena_strdup(arena, outbound.troubles[i]);
	pthread_mutex_unlock(&outbound.lock);
	*ret = (struct list){ count, all };
	return alive;
}

/* ---- what it begins with ---- */

/* One entry is wrong; the others hold. */
static void skip(const char *variable, const struct err *err)
{
	log_warn("%s: %s", variable, err->msg);
	if (outbound.trouble_count < TROUBLES_MAX)
		outbound.troubles[outbound.trouble_count++] =
			xasprintf("%s: %s", variable, err->msg);
}

static void read_patterns(const char *variable, const char *list, struct rule_pattern **to,
			  size_t *count)
{
	size_t len;
	for (const char *item; list && (item = rule_list_next(&list, &len));) {
		auto_free char *text = xstrndup(item, len);
		struct rule_pattern pattern = { 0 };
		struct err err;
		if (*count == OUTBOUND_RULES_MAX)
			return;
		if (rule_pattern_parse(text, &pattern, &err) < 0)
			skip(variable, &err);
		else
			add_pattern(to, count, &pattern);
	}
}

/* "source=target,…" */
static void read_mappings(const char *list)
{
	size_t len;
	for (const char *item; list && (item = rule_list_next(&list, &len));) {
		auto_free char *source = xstrndup(item, len);
		struct rule_mapping mapping = { 0 };
		struct err err;
		char *target = strchr(source, '=');
		if (target)
			*target++ = 0;
		if (rule_mapping_parse(source, target ? target : "", &mapping, &err) < 0 ||
		    put_mapping(&mapping, &err) < 0)
			skip("PROXY_MAP", &err);
	}
}

static bool is_set(const char *text)
{
	return text && *text;
}

static void read_upstream(const char *variable, const char *text)
{
	struct err err;
	outbound.upstream = upstream_proxy_new(outbound.server, text, NULL, &err);
	if (!outbound.upstream)
		skip(variable, &err);
}

/* An entry of no_proxy stands for the names below it, too. */
static void inherit_excludes(const char *list)
{
	size_t len;
	for (const char *item; list && (item = rule_list_next(&list, &len));) {
		auto_free char *text =
			xasprintf("%s%.*s",
				  strchr(".*[0123456789", *item) || memchr(item, ':', len) ? ""
											   : ".",
				  (int)len, item);
		read_patterns("no_proxy", text, &outbound.excludes, &outbound.exclude_count);
	}
}

static void read_configuration(const struct config *config)
{
	const char *named = proxy_named(), *without = proxy_excepted();
	read_mappings(config->proxy_map);
	read_patterns("PROXY_EXCLUDE", config->proxy_exclude, &outbound.excludes,
		      &outbound.exclude_count);
	read_patterns("PROXY_INCLUDE", config->proxy_include, &outbound.includes,
		      &outbound.include_count);
	if (is_set(config->proxy_server)) {
		read_upstream("PROXY_SERVER", config->proxy_server);
	} else if (named) {
		outbound.inherited = true;
		read_upstream("http_proxy", named);
		inherit_excludes(without);
	}
}

void outbound_setup(struct server *server)
{
	outbound.server = server;
	read_configuration(server->config);
	outbound.chosen = outbound.mapping_count || is_set(server->config->proxy_exclude) ||
			  is_set(server->config->proxy_include);
	pthread_mutex_lock(&outbound.turn);
	announce();
	pthread_mutex_unlock(&outbound.turn);
}

void outbound_end(void)
{
	for (size_t i = 0; i < outbound.mapping_count; i++)
		rule_mapping_done(&outbound.mappings[i]);
	for (size_t i = 0; i < outbound.exclude_count; i++)
		rule_pattern_done(&outbound.excludes[i]);
	for (size_t i = 0; i < outbound.include_count; i++)
		rule_pattern_done(&outbound.includes[i]);
	for (size_t i = 0; i < outbound.trouble_count; i++)
		free(outbound.troubles[i]);
	free(outbound.mappings);
	free(outbound.excludes);
	free(outbound.includes);
	upstream_proxy_unref(outbound.upstream);
	outbound.upstream = NULL;
	outbound.mapping_count = outbound.exclude_count = outbound.include_count = 0;
	outbound.trouble_count = 0;
	outbound.mappings = NULL;
	outbound.excludes = outbound.includes = NULL;
}
