/* Programs that listen in the sandbox, at its own address: which port a request is for. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/ports.h"
#include "api/preview_page.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/url.h"
#include "net/call.h"
#include "net/http.h"
#include "net/server.h"
#include "net/target.h"
#include "net/upstream.h"

struct preview {
	const char *port;
};
static const struct field preview_fields[] = {
	STR(preview, port, PATH | REQUIRED, "The program's port."),
};
static const struct schema preview_schema = SCHEMA(preview, "Preview", preview_fields);

/* ---- programs that know their prefix ----
 *
 * Behind /proxy/PORT a program sees paths without that. One that was told its base path, such as Vite with
 * `base: "/proxy/5173/"` or Next.js with `basePath: "/proxy/3000"`, wants to see it: it redirects "/" to its
 * base, which is the very address that the client asked for, or says that there is nothing at "/". It is
 * asked again by the whole path then, and if that is found it gets whole paths from there on, below that
 * prefix only. */

enum { BASES = 64 };

static struct {
	pthread_mutex_t lock;
	struct base {
		int port;
		char prefix[TARGET_OUTER_MAX + 24];
	} all[BASES];
	size_t next; /* to be replaced */
} bases = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct base *find_base(int port)
{
	for (size_t i = 0; i < COUNT(bases.all); i++)
		if (bases.all[i].port == port)
			return &bases.all[i];
	return NULL;
}

static bool knows_prefix(int port, const char *prefix)
{
	pthread_mutex_lock(&bases.lock);
	const struct base *base = find_base(port);
	bool knows = base && !strcmp(base->prefix, prefix);
	pthread_mutex_unlock(&bases.lock);
	return knows;
}

static void learn_prefix(int port, const char *prefix)
{
	pthread_mutex_lock(&bases.lock);
	struct base *base = find_base(port);
	if (!base)
		base = &bases.all[bases.next++ % BASES];
	base->port = port;
	snprintf(base->prefix, sizeof base->prefix, "%s", prefix);
	pthread_mutex_unlock(&bases.lock);
}

static void forget_prefix(int port)
{
	pthread_mutex_lock(&bases.lock);
	struct base *base = find_base(port);
	if (base)
		base->port = 0;
	pthread_mutex_unlock(&bases.lock);
}

/* Whether an answer leads back to where the client has asked already, below the prefix. */
static bool leads_back(const struct http_head *request, const char *to, const char *outer,
		       const char *own)
{
	struct target target;
	size_t skipped = strlen(outer), len = strcspn(to, "?#");
	if (strncmp(to, outer, skipped) != 0 || target_split(request, &target, NULL) < 0)
		return false;
	return len - skipped == target.path_len && target.path_len > strlen(own) &&
	       !memcmp(to + skipped, target.path, target.path_len);
}

static void see_whole(struct upstream *upstream, bool whole)
{
	upstream->prefix = whole ? NULL : upstream->own;
	upstream->sees_outer = whole;
}

/* Stripped; then perhaps whole; then perhaps stripped after all, so that what it says is about the path
 * that it should see. */
static bool ask_again(struct upstream *upstream, const struct http_head *request, int status,
		      const char *to)
{
	bool back = status >= 300 && status <= 399 && to &&
		    leads_back(request, to, upstream->outer, upstream->own);
	switch (upstream->tries++) {
	case 0:
		if (!back && (status != 404 || !upstream->visit))
			return false;
		see_whole(upstream, true);
		return true;
	case 1:
		if (status < 400 && !back) {
			learn_prefix(upstream->port, arena_printf(upstream->call->arena, "%s%s",
								  upstream->outer, upstream->own));
			return false;
		}
		see_whole(upstream, false);
		return true;
	default:
		return false;
	}
}

/* ---- failures ---- */

/* Whether one who listens there is found: it has just begun to, or ended. */
static bool is_reached(const char *address)
{
	static const char *const all[] = { "127.0.0.1", "0.0.0.0", "::1", "::" };
	for (size_t i = 0; i < COUNT(all); i++)
		if (!strcmp(address, all[i]))
			return true;
	return false;
}

/* Where the program listens, if that is not where it is looked for. */
static const char *explain(struct call *call, int port, const char *text,
			   const struct listening *ports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((int)ports[i].port == port && !is_reached(ports[i].address))
			return arena_printf(call->arena,
					    "the program on port %d listens on %s only: start it "
					    "with the host 127.0.0.1 or 0.0.0.0",
					    port, ports[i].address);
	return text;
}

static const char *name_ports(struct call *call, const char *text, const struct listening *ports,
			      size_t count)
{
	auto_buf struct buf to = BUF(4096);
	unsigned before = 0;
	for (size_t i = 0; i < count && to.len < 200; i++) {
		if (ports[i].port != before)
			buf_printf(&to, "%s%u", to.len ? ", " : "", ports[i].port);
		before = ports[i].port;
	}
	return to.len ? arena_printf(call->arena, "%s; programs listen on %s", text, to.data)
		      : text;
}

/* The addresses of other ports, in the form that the client has used. */
static void find_links(const struct upstream *upstream, struct preview_failure *ret)
{
	struct call *call = upstream->call;
	const char *path = call->route->path, *rest;
	if (!strncmp(path, ROUTE_PREVIEW, strlen(ROUTE_PREVIEW))) {
		char name[URL_HOST_MAX + 1];
		if (target_name(upstream->host, name, sizeof name) < 0 ||
		    target_label(name, &rest) != upstream->port)
			return;
		ret->before = "//";
		ret->after = arena_printf(call->arena, "%s/", strchr(upstream->host, '-'));
	} else {
		ret->before = arena_printf(call->arena, "%s%.*s", upstream->outer,
					   (int)strcspn(path, "{"), path);
		ret->after = "/";
	}
}

static const char *failed(const struct upstream *upstream, int status, bool refused,
			  const char *text)
{
	struct call *call = upstream->call;
	struct preview_failure failure = { upstream, status, .again = refused };
	struct listening *ports;
	if (refused)
		forget_prefix(upstream->port);
	if (upstream->stranger)
		return text;
	ports_look(call->server, 0);
	failure.count = ports_list(call->arena, &ports);
	failure.ports = ports;
	failure.text = refused ? explain(call, upstream->port, text, ports, failure.count) : text;
	find_links(upstream, &failure);
	if (preview_page_show(&failure))
		return NULL;
	return refused ? name_ports(call, failure.text, ports, failure.count) : text;
}

/* ---- the forms ---- */

static int find(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	const struct preview *request = in;
	ret->port = target_port(request->port, strlen(request->port));
	ret->program = true;
	ret->failed = failed;
	if (!ret->port)
		return err_set(err, ERR_NOT_FOUND, "Not Found");
	if (call->inside)
		return err_set(
			err, ERR_FORBIDDEN,
			"there are no previews inside the sandbox: connect to port %d itself",
			ret->port);
	/* It would take the server for root, and a program's page would have the origin of the API. */
	if (ret->port == call->server->inside.port)
		return err_set(
			err, ERR_FORBIDDEN,
			"port %d is the sandbox's own API, for programs inside it: leave the "
			"port out",
			ret->port);
	return 0;
}

/* The program does not see /proxy/PORT, unless it has shown that it knows of it. */
static int below(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->guest = true;
	if (find(call, in, ret, err) < 0)
		return -1;
	const char *prefix = arena_printf(call->arena, "%s%s", ret->outer, ret->own);
	if (knows_prefix(ret->port, prefix))
		see_whole(ret, true);
	else
		ret->again = ask_again;
	return 0;
}

/* It sees the path as it is: at a host name of its own, or below /absproxy/PORT. */
static int whole(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->prefix = NULL;
	return find(call, in, ret, err);
}

static int absolute(struct call *call, const void *in, struct upstream *ret, struct err *err)
{
	ret->guest = true;
	return whole(call, in, ret, err);
}

#define ANY(path, upstream_)                                                 \
	{                                                                    \
		"*", path, .in = &preview_schema, .flags = INTERNAL | GUEST, \
			   .upstream = (upstream_)                           \
	}

static const struct route routes[] = {
	ANY(ROUTE_PREVIEW "{port}", whole),  ANY("/absproxy/{port}", absolute),
	ANY("/absproxy/{port}/*", absolute), ANY("/proxy/{port}", below),
	ANY("/proxy/{port}/*", below),
};
const struct route_group preview_group = { "preview", "Programs that listen in the sandbox.",
					   routes, COUNT(routes) };
