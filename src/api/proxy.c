/* The outbound proxy: where requests of the sandbox's programs and of its browser go. */
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/call.h"
#include "net/dial.h"
#include "net/server.h"
#include "outbound/outbound.h"

enum { REACH_MS = 3000 };

/* ---- mappings ---- */

static const struct field mapping_fields[] = {
	STR(outbound_mapping, source, REQUIRED,
	    "Source pattern: [protocol://]host[:port][/path], supports wildcard * in host."),
	STR(outbound_mapping, target, REQUIRED,
	    "Target address: [host:]port[/path]. Host defaults to 127.0.0.1."),
	STR(outbound_mapping, source_host, REQUIRED, "The host of the source."),
	STR(outbound_mapping, source_path, OPTIONAL, "The path of the source.", .def = "/"),
	INT(outbound_mapping, internal_port, REQUIRED,
	    "The port of 127.0.0.1 at which the mapping is served: that of the proxy."),
};
static const struct schema mapping_schema =
	SCHEMA(outbound_mapping, "ProxyMappingRoute", mapping_fields);
static const struct field mapping_data = { .type = T_OBJ, .of = &mapping_schema };
static const struct field mappings_data = { .type = T_LIST, .item = T_OBJ, .of = &mapping_schema };

struct proxy_mapping {
	const char *source, *target;
};
static const struct field new_mapping_fields[] = {
	STR(proxy_mapping, source, REQUIRED,
	    "Source pattern: [protocol://]host[:port][/path], supports wildcard * in host. Without a "
	    "port, all ports.",
	    .min_len = 1, .max_len = RULE_TEXT_MAX, .example = "\"*.staging.app.com\""),
	STR(proxy_mapping, target, REQUIRED,
	    "Target address: [host:]port[/path]. Host defaults to 127.0.0.1.", .min_len = 1,
	    .max_len = RULE_TEXT_MAX, .example = "\":3000\""),
};
static const struct schema new_mapping_schema =
	SCHEMA(proxy_mapping, "ProxyMappingAddRequest", new_mapping_fields);

static int add_mapping(struct call *call, const void *in, struct err *err)
{
	const struct proxy_mapping *request = in;
	struct outbound_mapping mapping;
	if (outbound_map(request->source, request->target, call->arena, &mapping, err) < 0)
		return -1;
	return call_reply(call, &mapping, err);
}

static int list_mappings(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct list mappings = outbound_mappings(call->arena);
	return call_reply(call, &mappings, err);
}

struct mapped_source {
	const char *source;
};
static const struct field source_fields[] = {
	STR(mapped_source, source, PATH | REQUIRED, "The source, percent-encoded.",
	    .max_len = RULE_TEXT_MAX),
};
static const struct schema source_schema =
	SCHEMA(mapped_source, "ProxyMappingSource", source_fields);

/* With slashes that are not encoded, as some clients send it. */
struct whole_source {
	const char *source;
};
static const struct field whole_source_fields[] = {
	NAMED("*", STR, whole_source, source, PATH | REQUIRED, "The source.",
	      .max_len = RULE_TEXT_MAX),
};
static const struct schema whole_source_schema =
	SCHEMA(whole_source, "ProxyMappingWholeSource", whole_source_fields);

static int remove_whole(struct call *call, const void *in, struct err *err)
{
	(void)call;
	return outbound_unmap(((const struct whole_source *)in)->source, err);
}

static int remove_mapping(struct call *call, const void *in, struct err *err)
{
	const struct mapped_source *request = in;
	(void)call;
	return outbound_unmap(request->source, err);
}

/* ---- excludes ---- */

static const struct field excludes_data = { .type = T_LIST, .item = T_STR };

struct excluded {
	const char *pattern;
};
static const struct field exclude_fields[] = {
	STR(excluded, pattern, REQUIRED,
	    "Bypass pattern: domain (*.example.com, .example.com) or CIDR (10.0.0.0/8); or one host.",
	    .min_len = 1, .max_len = RULE_TEXT_MAX, .example = "\"*.internal.company.com\""),
};
static const struct schema exclude_schema = SCHEMA(excluded, "ProxyBypassRequest", exclude_fields);

static int list_excludes(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct list excludes = outbound_excludes(call->arena);
	return call_reply(call, &excludes, err);
}

static int add_exclude(struct call *call, const void *in, struct err *err)
{
	(void)call;
	return outbound_exclude(((const struct excluded *)in)->pattern, err);
}

static int remove_exclude(struct call *call, const void *in, struct err *err)
{
	(void)call;
	return outbound_include_again(((const struct excluded *)in)->pattern, err);
}

/* ---- the upstream proxy ---- */

static const struct field upstream_fields[] = {
	STR(outbound_upstream, addr, REQUIRED, "Upstream proxy address (host:port)."),
	STR(outbound_upstream, username, NULLABLE, "Proxy auth username (if authenticated)."),
	STR(outbound_upstream, password, NULLABLE,
	    "Proxy auth password (if authenticated): always ***."),
};
static const struct schema upstream_schema =
	SCHEMA(outbound_upstream, "ProxyUpstreamInfo", upstream_fields);
static const struct field upstream_data = { .type = T_OBJ, .of = &upstream_schema };
static const struct field perhaps_upstream_data = { .type = T_OBJ,
						    .flags = NULLABLE,
						    .of = &upstream_schema };

struct new_upstream {
	const char *server, *auth_cmd;
};
static const struct field new_upstream_fields[] = {
	STR(new_upstream, server, REQUIRED,
	    "Upstream proxy server. Supports plain host:port or user:pass@host:port.", .min_len = 1,
	    .max_len = RULE_TEXT_MAX, .example = "\"proxy.example.com:3128\""),
	STR(new_upstream, auth_cmd, OPTIONAL,
	    "Optional shell command to obtain proxy credentials. The command stdout should be "
	    "\"username:password\"; it replaces any inline credentials. It is run at once as the "
	    "sandbox user, again after a minute, and when the proxy refuses them.",
	    .max_len = RULE_TEXT_MAX),
};
static const struct schema new_upstream_schema =
	SCHEMA(new_upstream, "ProxyUpstreamUpdateRequest", new_upstream_fields);

static int get_upstream(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct outbound_upstream upstream;
	bool found = outbound_upstream(call->arena, &upstream);
	return call_reply(call, found ? &upstream : NULL, err);
}

static int set_upstream(struct call *call, const void *in, struct err *err)
{
	const struct new_upstream *request = in;
	struct outbound_upstream upstream;
	if (outbound_set_upstream(request->server, request->auth_cmd, call->arena, &upstream, err) <
	    0)
		return -1;
	return call_reply(call, &upstream, err);
}

static int remove_upstream(struct call *call, const void *in, struct err *err)
{
	(void)in;
	outbound_remove_upstream();
	return call_reply(call, NULL, err);
}

/* ---- diagnosing ---- */

struct asked_url {
	const char *url;
};
static const struct field url_fields[] = {
	STR(asked_url, url, QUERY | REQUIRED, "URL to diagnose routing for.", .max_len = 8000),
};
static const struct schema url_schema = SCHEMA(asked_url, "ProxyDiagnoseRequest", url_fields);

struct diagnosis {
	const char *url;
	const struct outbound_mapping *matched_mapping;
	const char *resolved_target;
	bool target_reachable;
	const char *route;
};
static const struct field diagnosis_fields[] = {
	STR(diagnosis, url, REQUIRED, "The URL."),
	OBJ(diagnosis, matched_mapping, NULLABLE, "The mapping it goes by.", .of = &mapping_schema),
	STR(diagnosis, resolved_target, NULLABLE, "Where the proxy connects to."),
	BOOL(diagnosis, target_reachable, OPTIONAL, "Whether something accepts connections there.",
	     .def = "false"),
	STR(diagnosis, route, REQUIRED, "mapping, upstream or direct; the message says why."),
};
static const struct schema diagnosis_schema =
	SCHEMA(diagnosis, "ProxyDiagnoseResult", diagnosis_fields);
static const struct field diagnosis_data = { .type = T_OBJ, .of = &diagnosis_schema };

static bool is_reachable(struct call *call, const char *host, int port)
{
	const struct dial_wait wait = { .all = call_until(call, clock_ms() + REACH_MS) };
	struct url_parts to = { .port = port };
	struct err err;
	uid_t user = call->server->inside.user; /* as the proxy does */
	snprintf(to.host, sizeof to.host, "%s", host);
	int before = user ? setfsuid(user) : 0;
	auto_close int fd = dial(&to, &wait, &err);
	if (user)
		setfsuid((uid_t)before);
	return fd >= 0;
}

static int diagnose(struct call *call, const void *in, struct err *err)
{
	static const char *const routes[] = { "direct", "mapping", "upstream" };
	const char *text = ((const struct asked_url *)in)->url;
	struct url_parts url;
	struct outbound_way way;
	/* As people name hosts. */
	if (url_split(strstr(text, "://") ? text : arena_printf(call->arena, "http://%s", text),
		      &url, err) < 0)
		return -1;
	const struct rule_url asked = { url.secure ? "https" : "http", url.host, url.port,
					url.secure ? NULL : url.target };
	outbound_find(&asked, call->arena, &way);
	struct diagnosis diagnosis = {
		.url = text,
		.matched_mapping = way.mapping,
		.resolved_target = arena_printf(call->arena,
						strchr(way.host, ':') ? "[%s]:%d%s" : "%s:%d%s",
						way.host, way.port, way.path ? way.path : ""),
		.target_reachable = is_reachable(call, way.host, way.port),
		.route = routes[way.kind],
	};
	call->message = way.why;
	return call_reply(call, &diagnosis, err);
}

struct health {
	bool healthy, gost_alive, nginx_alive, config_consistent;
	struct list inconsistencies;
};
static const struct field health_fields[] = {
	BOOL(health, healthy, REQUIRED, "Overall health status."),
	BOOL(health, gost_alive, REQUIRED, "The proxy accepts connections."),
	BOOL(health, nginx_alive, REQUIRED, "The same: it serves mappings, too."),
	BOOL(health, config_consistent, REQUIRED, "All that is configured is in effect."),
	LIST(health, inconsistencies, OPTIONAL, "What is not, and why.", .item = T_STR),
};
static const struct schema health_schema = SCHEMA(health, "ProxyHealthCheck", health_fields);
static const struct field health_data = { .type = T_OBJ, .of = &health_schema };

static int check_health(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct health health;
	bool alive = outbound_health(call->arena, &health.inconsistencies);
	health.config_consistent = health.inconsistencies.count == 0;
	health.gost_alive = health.nginx_alive = alive;
	health.healthy = alive && health.config_consistent;
	return call_reply(call, &health, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/proxy/mappings", list_mappings, NULL, &mappings_data, "List mappings" },
	{ "POST", "/v1/proxy/mappings", add_mapping, &new_mapping_schema, &mapping_data,
	  "Add or update a mapping",
	  "Requests of the sandbox's programs for the source go to the target. The most specific "
	  "mapping holds. Of https only whole hosts can be mapped: the connection goes to the target, "
	  "which must speak TLS for that name." },
	{ "DELETE", "/v1/proxy/mappings/{source}", remove_mapping, &source_schema, NULL,
	  "Remove a mapping" },
	{ "DELETE", "/v1/proxy/mappings/*", remove_whole, &whole_source_schema,
	  .summary = "Remove a mapping", .flags = INTERNAL },
	{ "GET", "/v1/proxy/excludes", list_excludes, NULL, &excludes_data,
	  "List hosts that are reached directly" },
	{ "POST", "/v1/proxy/excludes", add_exclude, &exclude_schema, NULL,
	  "Have a host reached directly",
	  "Without the upstream proxy. Names are not looked up to compare "
	  "them with a CIDR." },
	{ "DELETE", "/v1/proxy/excludes", remove_exclude, &exclude_schema, NULL,
	  "Remove such a host" },
	{ "GET", "/v1/proxy/diagnose", diagnose, &url_schema, &diagnosis_data,
	  "Find out where a URL leads" },
	{ "GET", "/v1/proxy/health", check_health, NULL, &health_data, "Check the proxy" },
	{ "GET", "/v1/proxy/upstream", get_upstream, NULL, &perhaps_upstream_data,
	  "Get the upstream proxy" },
	{ "PUT", "/v1/proxy/upstream", set_upstream, &new_upstream_schema, &upstream_data,
	  "Set the upstream proxy",
	  "For requests from now on, those of a running browser included. Tunnels through another "
	  "proxy end once they are idle." },
	{ "DELETE", "/v1/proxy/upstream", remove_upstream, NULL, NULL,
	  "Go without an upstream proxy" },
};
const struct route_group proxy_group = {
	"proxy",
	"The forward proxy that the sandbox's programs and browser use once something is configured.",
	routes, COUNT(routes)
};
