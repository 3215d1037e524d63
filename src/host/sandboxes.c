/* The lifecycle API: /v1/sandboxes. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/rules.h"
#include "host/allow.h"
#include "host/box_limits.h"
#include "host/deadline.h"
#include "host/default_box.h"
#include "host/host.h"
#include "host/mounts.h"
#include "host/run.h"
#include "host/sandboxes.h"
#include "net/call.h"
#include "net/route.h"
#include "service/service_names.h"

/* ---- what is asked for: a mistyped limit would be a weaker box, so nothing unknown is taken ---- */

struct network {
	const char *mode;
	struct list allow;
};
static const char *const network_modes[] = { "none", "allow", "full", NULL };
static const struct field network_fields[] = {
	ENUM(network, mode, OPTIONAL,
	     "none, allow (only the domains listed) or full. When absent: allow where domains are listed, else none.",
	     .choices = network_modes, .flag = "network"),
	LIST(network, allow, OPTIONAL,
	     "Names that may be reached, of mode 'allow': example.com; *.example.org for all below "
	     "it; * for every name; with :443, that port alone.",
	     .item = T_STR, .max_len = 1000),
};
static const struct schema network_schema =
	SCHEMA(network, "SandboxNetwork", network_fields, .strict = true);

struct mount {
	const char *source, *target;
	bool writable;
};
static const struct field mount_fields[] = {
	STR(mount, source, REQUIRED | ABSPATH,
	    "Directory or file of the machine, below one of the host's --mount-roots.",
	    .max_len = 4095),
	STR(mount, target, REQUIRED | ABSPATH, "Where it is in the box.", .max_len = 4095),
	BOOL(mount, writable, OPTIONAL, "May the box write to it? Not if it belongs to root.",
	     .def = "false"),
};
static const struct schema mount_schema =
	SCHEMA(mount, "SandboxMount", mount_fields, .strict = true);

struct sandboxes_create {
	const char *template, *name, *auth;
	double timeout, idle_timeout;
	enum tri auto_resume;
	struct list metadata, env, mounts, services;
	const struct box_limits *limits;
	const struct network *network;
};
static const char *const auth_modes[] = { "token", "none", NULL };
#define SERVICE_HELP(name, option, disabled_by, what) " " name ": " what "."
static const struct field create_fields[] = {
	STR(sandboxes_create, template, OPTIONAL,
	    "Template to start from; this machine's own programs when absent.", .max_len = 64),
	STR(sandboxes_create, name, OPTIONAL,
	    "Its id; a random one when absent. A letter, then letters, digits and single '-'.",
	    .max_len = BOX_ID_MAX),
	NUM(sandboxes_create, timeout, MIN | MAX | TIMED, "Seconds after which it is deleted.",
	    .min = 0, .max = 315360000),
	NUM(sandboxes_create, idle_timeout, MIN | MAX | TIMED,
	    "Seconds without a request after which it is paused.", .min = 0, .max = 315360000),
	TRI(sandboxes_create, auto_resume, OPTIONAL,
	    "Does a request resume it when it is paused or stopped? When absent: if there is an idle_timeout."),
	MAP(sandboxes_create, metadata, OPTIONAL, "The caller's own labels.", .max_len = 64),
	MAP(sandboxes_create, env, OPTIONAL, "Environment of all that runs in it.", .max_len = 256),
	OBJ(sandboxes_create, limits, OPTIONAL, "What it may use.", .of = &box_limits_schema),
	OBJ(sandboxes_create, network, OPTIONAL, "What it may reach; nothing when absent.",
	    .of = &network_schema),
	LIST(sandboxes_create, mounts, OPTIONAL, "Directories of the machine in it.", .item = T_OBJ,
	     .of = &mount_schema, .max_len = 16),
	LIST(sandboxes_create, services, OPTIONAL,
	     "What its server is to have ready at once, not on first use." SERVICE_NAMES(
		     SERVICE_HELP),
	     .item = T_STR, .max_len = 16, .choices = run_services),
	ENUM(sandboxes_create, auth, OPTIONAL,
	     "token: callers send the box's token; none: everyone who reaches the host may call it.",
	     .choices = auth_modes, .def = "token"),
};
const struct schema sandboxes_create_schema =
	SCHEMA(sandboxes_create, "SandboxCreateRequest", create_fields, .strict = true);

/* ---- what is answered ---- */

struct urls {
	const char *api, *path, *preview;
};
static const struct field urls_fields[] = {
	STR(urls, api, REQUIRED, "Its own origin: base URL for SDKs and browsers."),
	STR(urls, path, REQUIRED,
	    "The same below the host's address, where names below localhost do not resolve."),
	STR(urls, preview, REQUIRED, "What listens in it, with PORT for the port."),
};
static const struct schema urls_schema = SCHEMA(urls, "SandboxUrls", urls_fields);

struct sandbox {
	const char *id, *state, *template, *token, *created_at, *expires_at, *auth;
	double idle_timeout;
	bool auto_resume;
	struct list metadata;
	const struct urls *urls;
	json_t *limits, *network;
};
static const struct field sandbox_fields[] = {
	STR(sandbox, id, REQUIRED, "Also its host name."),
	STR(sandbox, state, REQUIRED, "creating, running, paused or stopped."),
	STR(sandbox, template, NULLABLE,
	    "What it was made from; null: this machine's own programs."),
	OBJ(sandbox, urls, REQUIRED, "How to reach it.", .of = &urls_schema),
	STR(sandbox, token, NULLABLE,
	    "To be sent as Authorization: Bearer or X-AIO-API-Key; of 'default' the key that the host was given. "
	    "Null in lists, and where none is needed or only a JWT opens it."),
	STR(sandbox, auth, REQUIRED, "token or none."),
	STR(sandbox, created_at, REQUIRED, "When, ISO 8601."),
	STR(sandbox, expires_at, NULLABLE, "When it will be deleted."),
	NUM(sandbox, idle_timeout, NULLABLE, "Seconds without a request after which it is paused."),
	BOOL(sandbox, auto_resume, REQUIRED, "Does a request resume it?"),
	MAP(sandbox, metadata, REQUIRED, "The caller's own labels."),
	JSON(sandbox, limits, NULLABLE, "What it may use.", .of = &box_limits_schema),
	JSON(sandbox, network, NULLABLE, "What it may reach.", .of = &network_schema),
};
static const struct schema sandbox_schema = SCHEMA(sandbox, "Sandbox", sandbox_fields);
static const struct field sandbox_data = { .type = T_OBJ, .of = &sandbox_schema };

struct page {
	struct list sandboxes;
	int64_t total, offset;
};
static const struct field page_fields[] = {
	LIST(page, sandboxes, REQUIRED, "In the order of their creation.", .item = T_OBJ,
	     .of = &sandbox_schema),
	INT(page, total, REQUIRED, "How many match."),
	INT(page, offset, REQUIRED, "How many of those come before."),
};
static const struct schema page_schema = SCHEMA(page, "SandboxList", page_fields);
static const struct field page_data = { .type = T_OBJ, .of = &page_schema };

const char *sandbox_when(struct arena *arena, int64_t ms)
{
	struct tm t;
	time_t seconds = ms / 1000;
	char text[40];
	gmtime_r(&seconds, &t);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
	return arena_printf(arena, "%s.%03dZ", text, (int)(ms % 1000));
}

static const struct urls *urls_of(const struct host *host, const struct box *box, struct call *call)
{
	struct urls *urls = arena_alloc(call->arena, sizeof *urls);
	const char *domain = host->config->domain ? host->config->domain : "localhost";
	const char *scheme = strncmp(call->base_url, "https", 5) ? "http" : "https";
	const char *bracket = strrchr(call->base_url, ']'),
		   *port = strrchr(bracket ? bracket : call->base_url + 6, ':');
	if (!port)
		port = "";
	urls->api = arena_printf(call->arena, "%s://%s.%s%s", scheme, box->id, domain, port);
	urls->path = arena_printf(call->arena, "%s/s/%s", call->base_url, box->id);
	urls->preview =
		arena_printf(call->arena, "%s://PORT-%s.%s%s", scheme, box->id, domain, port);
	return urls;
}

static struct list pairs_of(const json_t *object, struct arena *arena)
{
	struct pair *pairs = arena_alloc(arena, (json_object_size(object) + 1) * sizeof *pairs);
	size_t count = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)object, name, value)
		pairs[count++] = (struct pair){ name, json_string_value(value) };
	return (struct list){ count, pairs };
}

/* What opens it. The default one takes the operator's keys; NULL: it takes none, or only JWTs. */
static const char *token_of(const struct host *host, const struct box *box)
{
	const char *keys[] = { host->config->api_key, host->config->auth_token };
	if (strcmp(box->id, "default") != 0)
		return *box->token ? box->token : NULL;
	return keys[0] && *keys[0] ? keys[0] : keys[1] && *keys[1] ? keys[1] : NULL;
}

/* spec is never changed in place, and lives as long as the box, which the caller holds. */
static void describe(struct call *call, struct box *box, bool with_token, struct sandbox *to)
{
	struct host *host = host_of(call->server);
	pthread_mutex_lock(&host->boxes.lock);
	enum box_state state = box->state;
	int64_t deadline = box->deadline, idle = box->idle_ms;
	pthread_mutex_unlock(&host->boxes.lock);
	const char *template = json_string_value(json_object_get(box->spec, "template"));
	const char *auth = json_string_value(json_object_get(box->spec, "auth"));
	bool first = !strcmp(box->id, "default");
	*to = (struct sandbox){
		.id = box->id,
		.state = box_state_names[state],
		.template = template,
		.urls = urls_of(host, box, call),
		.token = with_token ? token_of(host, box) : NULL,
		.auth = first  ? (host->config->api_key || host->config->auth_token ||
                                                 host->config->jwt_public_key
					  ? "token"
					  : "none")
			: auth ? auth
			       : "token",
		.created_at = sandbox_when(call->arena, box->created_ms),
		.expires_at = deadline ? sandbox_when(call->arena, deadline_wall(deadline)) : NULL,
		.idle_timeout = idle ? (double)idle / 1000 : (double)NAN,
		.auto_resume = box->auto_resume,
		.metadata = pairs_of(json_object_get(box->spec, "metadata"), call->arena),
		.limits = json_object_get(box->spec, "limits"),
		.network = json_object_get(box->spec, "network"),
	};
}

static void release(void *arg)
{
	struct held {
		struct host *host;
		struct box *box;
	} *held = arg;
	boxes_put(&held->host->boxes, held->box);
}

/* The box lives as long as the call. */
static void hold(struct call *call, struct box *box)
{
	struct {
		struct host *host;
		struct box *box;
	} *held = arena_alloc(call->arena, sizeof *held);
	held->host = host_of(call->server);
	held->box = box;
	arena_defer(call->arena, release, held);
}

struct box *sandbox_find(struct call *call, const char *id, struct err *err)
{
	struct box *box = boxes_get(&host_of(call->server)->boxes, id);
	if (box)
		hold(call, box);
	else
		err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", id);
	return box;
}

static int reply_with(struct call *call, const char *id, struct err *err)
{
	struct sandbox sandbox;
	struct box *box = sandbox_find(call, id, err);
	if (!box)
		return -1;
	describe(call, box, true, &sandbox);
	return call_reply(call, &sandbox, err);
}

/* ---- creating ---- */

static int check_env(const json_t *env, struct err *err)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)env, name, value) {
		size_t len = strlen(name);
		if (!len || len > 256 || strpbrk(name, "= \t\n") ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_set(err, ERR_INVALID,
				       "env: '%.60s' cannot be the name of a variable", name);
	}
	return 0;
}

static int check_means(const struct host *host, const json_t *spec, struct err *err)
{
	const json_t *asked = json_object_get(spec, "limits");
	if (box_limits_check(host, asked, "limits.", err) < 0 ||
	    box_limits_fit(host, asked, "limits.", err) < 0)
		return -1;
	const char *mode =
		json_string_value(json_object_get(json_object_get(spec, "network"), "mode"));
	if (mode && !strcmp(mode, "full") && !host->full)
		return err_set(err, ERR_INVALID,
			       "network.mode: full takes root, or pasta (package passt) and a "
			       "/dev/net/tun that is yours to use; allow takes neither");
	if (json_array_size(json_object_get(spec, "mounts")) && !host->means.can_mount)
		return err_set(err, ERR_INVALID,
			       "mounts: showing a directory with a box's own user ids takes root; "
			       "upload the files instead");
	return 0;
}

/* Who lists names without a mode means that mode; who asks for another one is in doubt. */
static int check_network(json_t *network, struct err *err)
{
	json_t *allow = json_object_get(network, "allow");
	const char *mode = json_string_value(json_object_get(network, "mode"));
	auto_buf struct buf names = BUF(1 << 20);
	if (allow_check(allow, "network.allow", err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(allow); i++)
		buf_printf(&names, "%s%s", i ? "," : "",
			   json_string_value(json_array_get(allow, i)));
	if (!mode && json_is_object(network))
		json_object_set_new(network, "mode", json_string(names.len ? "allow" : "none"));
	if (!names.len)
		return 0;
	if (mode && strcmp(mode, "allow") != 0)
		return err_set(err, ERR_INVALID,
			       "network.allow: domains are listed for mode 'allow', not for '%s'",
			       mode);
	struct rules *rules = rules_new(names.data, NULL, err);
	if (!rules)
		return -1;
	rules_free(rules);
	return 0;
}

static int finish_spec(const struct host *host, json_t *spec, struct err *err)
{
	size_t i;
	json_t *mount;
	json_array_foreach(json_object_get(spec, "mounts"), i, mount)
		if (mounts_check(host->config->mount_roots, mount, err) < 0)
			return -1;
	if (json_object_size(json_object_get(spec, "metadata")) > 64 ||
	    json_object_size(json_object_get(spec, "env")) > 256)
		return err_set(err, ERR_INVALID,
			       "at most 64 labels of metadata and 256 variables of env");
	if (check_env(json_object_get(spec, "env"), err) < 0 ||
	    check_network(json_object_get(spec, "network"), err) < 0)
		return -1;
	return check_means(host, spec, err);
}

static json_t *spec_of(const struct sandboxes_create *request, struct err *err)
{
	struct jw jw;
	jw_init(&jw, 4 << 20);
	desc_encode(&sandboxes_create_schema, request, &jw);
	json_t *spec = jw_failed(&jw) ? NULL : json_loadb(jw.out.data, jw.out.len, 0, NULL);
	jw_done(&jw);
	if (!spec)
		err_set(err, ERR_TOO_LARGE, "the request is too large");
	return spec;
}

static int create(struct call *call, const void *in, struct err *err)
{
	struct host *host = host_of(call->server);
	struct sandbox sandbox;
	json_t *spec = spec_of(in, err);
	if (spec && finish_spec(host, spec, err) < 0) {
		json_decref(spec);
		spec = NULL;
	}
	struct box *box = spec ? life_create(host, spec, err) : NULL;
	if (!box)
		return -1;
	hold(call, box);
	describe(call, box, true, &sandbox);
	return call_reply(call, &sandbox, err);
}

/* ---- looking ---- */

static const struct field by_id_fields[] = {
	STR(sandbox_id, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
};
const struct schema sandbox_id_schema = SCHEMA(sandbox_id, "SandboxId", by_id_fields);

static int get(struct call *call, const void *in, struct err *err)
{
	const struct sandbox_id *request = in;
	return reply_with(call, request->id, err);
}

static const char *const state_names[] = { "creating", "running", "paused", "stopped", NULL };

struct sandboxes_filter {
	struct list metadata, state;
	int64_t limit, offset;
};
static const struct field filter_fields[] = {
	LIST(sandboxes_filter, metadata, QUERY,
	     "Only those with this label, as key=value; may be repeated.", .item = T_STR,
	     .max_len = 16),
	LIST(sandboxes_filter, state, QUERY, "Only those in one of these states; may be repeated.",
	     .item = T_STR, .max_len = 8, .choices = state_names),
	INT(sandboxes_filter, limit, QUERY | MIN | MAX, "How many at most.", .def = "100", .min = 1,
	    .max = 1000),
	INT(sandboxes_filter, offset, QUERY | MIN, "How many to leave out.", .def = "0", .min = 0),
};
static const struct schema filter_schema = SCHEMA(sandboxes_filter, "SandboxFilter", filter_fields);

static bool has_label(const struct box *box, const char *label)
{
	size_t len = strcspn(label, "=");
	const json_t *value = json_object_getn(json_object_get(box->spec, "metadata"), label, len);
	return value && (!label[len] || !strcmp(json_string_value(value), label + len + 1));
}

static bool matches(const struct sandboxes_filter *filter, const struct box *box,
		    enum box_state state)
{
	const char *const *labels = filter->metadata.items, *const *states = filter->state.items;
	bool found = !filter->state.count;
	for (size_t i = 0; i < filter->state.count; i++)
		found |= !strcmp(states[i], box_state_names[state]);
	for (size_t i = 0; i < filter->metadata.count && found; i++)
		found = has_label(box, labels[i]);
	return found && state != BOX_DELETED && box->spec;
}

static int list(struct call *call, const void *in, struct err *err)
{
	const struct sandboxes_filter *filter = in;
	struct host *host = host_of(call->server);
	size_t count, shown = 0;
	struct box **boxes = boxes_list(&host->boxes, &count);
	struct sandbox *sandboxes =
		arena_alloc(call->arena, (size_t)(filter->limit + 1) * sizeof *sandboxes);
	int64_t total = 0;
	for (size_t i = 0; i < count; i++) {
		hold(call, boxes[i]);
		if (!matches(filter, boxes[i], boxes_state(&host->boxes, boxes[i])))
			continue;
		if (total++ >= filter->offset && shown < (size_t)filter->limit)
			describe(call, boxes[i], false, &sandboxes[shown++]);
	}
	free(boxes);
	struct page page = { { shown, sandboxes }, total, filter->offset };
	return call_reply(call, &page, err);
}

/* ---- changing ---- */

static int delete (struct call *call, const void *in, struct err *err)
{
	const struct sandbox_id *request = in;
	struct host *host = host_of(call->server);
	if (life_delete(host, request->id, err) < 0)
		return -1;
	return strcmp(request->id, "default") != 0 ? 0 : default_box_ensure(host, err);
}

static int pause_box(struct call *call, const void *in, struct err *err)
{
	const struct sandbox_id *request = in;
	if (life_pause(host_of(call->server), request->id, "asked", err) < 0)
		return -1;
	return reply_with(call, request->id, err);
}

static int resume(struct call *call, const void *in, struct err *err)
{
	const struct sandbox_id *request = in;
	if (life_resume(host_of(call->server), request->id, err) < 0)
		return -1;
	return reply_with(call, request->id, err);
}

struct timeout {
	const char *id;
	double timeout, idle_timeout;
};
static const struct field timeout_fields[] = {
	STR(timeout, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
	NUM(timeout, timeout, MIN | MAX, "Seconds from now after which it is deleted; 0 for never.",
	    .min = 0, .max = 315360000),
	NUM(timeout, idle_timeout, MIN | MAX,
	    "Seconds without a request after which it is paused; 0 for never.", .min = 0,
	    .max = 315360000),
};
static const struct schema timeout_schema =
	SCHEMA(timeout, "SandboxTimeoutRequest", timeout_fields, .strict = true);

static int set_timeout(struct call *call, const void *in, struct err *err)
{
	const struct timeout *request = in;
	if (life_timeout(host_of(call->server), request->id, request->timeout,
			 request->idle_timeout, err) < 0)
		return -1;
	return reply_with(call, request->id, err);
}

struct fork {
	const char *id, *name;
	struct list metadata;
};
static const struct field fork_fields[] = {
	STR(fork, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
	STR(fork, name, OPTIONAL, "Id of the new one; a random one when absent.",
	    .max_len = BOX_ID_MAX),
	MAP(fork, metadata, OPTIONAL, "Its labels; those of the first when absent.", .max_len = 64),
};
const struct schema sandboxes_fork_schema =
	SCHEMA(fork, "SandboxForkRequest", fork_fields, .strict = true);

static int fork_box(struct call *call, const void *in, struct err *err)
{
	const struct fork *request = in;
	struct host *host = host_of(call->server);
	struct box *first = sandbox_find(call, request->id, err);
	if (!first)
		return -1;
	json_t *spec = json_deep_copy(first->spec);
	json_object_del(spec, "name");
	if (request->name)
		json_object_set_new(spec, "name", json_string(request->name));
	if (request->metadata.count) {
		json_t *labels = json_object();
		const struct pair *pairs = request->metadata.items;
		for (size_t i = 0; i < request->metadata.count; i++)
			json_object_set_new(labels, pairs[i].name, json_string(pairs[i].value));
		json_object_set_new(spec, "metadata", labels);
	}
	struct box *second = life_fork(host, request->id, spec, err);
	if (!second)
		return -1;
	hold(call, second);
	struct sandbox sandbox;
	describe(call, second, true, &sandbox);
	return call_reply(call, &sandbox, err);
}

struct snapshot {
	const char *id, *name;
	bool include_browser;
};
static const struct field snapshot_fields[] = {
	STR(snapshot, id, PATH | REQUIRED, "Id of the sandbox.", .max_len = 64),
	STR(snapshot, name, REQUIRED, "Name of the new template.", .max_len = BOX_ID_MAX),
	BOOL(snapshot, include_browser, OPTIONAL,
	     "Whether the browser's profile is part of it: its cookies, storage and history.",
	     .def = "false"),
};
const struct schema sandboxes_snapshot_schema =
	SCHEMA(snapshot, "SandboxSnapshotRequest", snapshot_fields, .strict = true);

struct snapped {
	const char *template;
};
static const struct field snapped_fields[] = {
	STR(snapped, template, REQUIRED, "Name of the template, for POST /v1/sandboxes."),
};
static const struct schema snapped_schema = SCHEMA(snapped, "SandboxSnapshot", snapped_fields);
static const struct field snapped_data = { .type = T_OBJ, .of = &snapped_schema };

static int snapshot(struct call *call, const void *in, struct err *err)
{
	const struct snapshot *request = in;
	if (templates_snapshot(host_of(call->server), request->id, request->name,
			       request->include_browser, err) < 0)
		return -1;
	struct snapped snapped = { request->name };
	return call_reply(call, &snapped, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/sandboxes", create, &sandboxes_create_schema, &sandbox_data,
	  "Create a sandbox" },
	{ "GET", "/v1/sandboxes", list, &filter_schema, &page_data, "List sandboxes" },
	{ "GET", "/v1/sandboxes/{id}", get, &sandbox_id_schema, &sandbox_data, "A sandbox" },
	{ "DELETE", "/v1/sandboxes/{id}", delete, &sandbox_id_schema, NULL,
	  "Delete a sandbox, and all that is in it" },
	{ "POST", "/v1/sandboxes/{id}/timeout", set_timeout, &timeout_schema, &sandbox_data,
	  "Set its time limits" },
	{ "POST", "/v1/sandboxes/{id}/pause", pause_box, &sandbox_id_schema, &sandbox_data,
	  "Pause it: its processes stand still" },
	{ "POST", "/v1/sandboxes/{id}/resume", resume, &sandbox_id_schema, &sandbox_data,
	  "Resume it; a stopped one starts again on its files" },
	{ "POST", "/v1/sandboxes/{id}/snapshot", snapshot, &sandboxes_snapshot_schema,
	  &snapped_data, "Make a template of its files" },
	{ "POST", "/v1/sandboxes/{id}/fork", fork_box, &sandboxes_fork_schema, &sandbox_data,
	  "Make a new sandbox from its files" },
};
const struct route_group sandboxes_group = {
	"sandboxes", "Sandboxes of this host: for those who have its own token.", routes,
	COUNT(routes)
};
