/* The product's pages, and the files they are made of. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/call.h"
#include "net/mime.h"
#include "net/server.h"

/* Our pages load nothing from elsewhere. The one inline script they may run is the loader that hands
 * a credential of the page's own address on to what the page is made of. */
#define OWN_FILES_ONLY                                                                                  \
	"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "            \
	"font-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'self'; base-uri 'none'; " \
	"script-src 'self' 'sha256-e1dK3Pb5UdlkAyLAsygdRUrVwR1u0sFXJEV1bDrjw1M='"

/* It is shown before a credential is: only its form, which is sent here. */
#define FORM_ONLY                                                             \
	"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; " \
	"frame-ancestors 'none'; base-uri 'none'"

/* It is text. */
#define NO_MORE "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"

/* It is text, and one script of its own, which is this one (a test compares). */
#define NO_MORE_BUT_RELOAD \
	NO_MORE "; script-src 'sha256-yZqr+N3GLqsL+N8RD75cynYxHO2ej92aytGL+LK02WI='"

const struct page_file page_files[] = {
	[PAGE_DOCS] = { "web/docs/index.html", OWN_FILES_ONLY },
	[PAGE_TERMINAL] = { "web/terminal/index.html", OWN_FILES_ONLY },
	[PAGE_VNC] = { "web/vnc/index.html", OWN_FILES_ONLY },
	[PAGE_ICON] = { "web/favicon.svg", OWN_FILES_ONLY },
	[PAGE_SIGN_IN] = { "web/sign-in/index.html", FORM_ONLY }, /* sign_in.c shows it */
	[PAGE_OWN_NAME] = { "web/own-name/index.html", NO_MORE }, /* own_name.c of the host does */
	[PAGE_PREVIEW] = { "web/preview/index.html", NO_MORE_BUT_RELOAD }, /* preview_page.c does */
};

/* What is served below /static/, from where below the home: folders, or a file where there is no
 * final slash. "sandbox/" holds addresses that clients know from AIO Sandbox. */
static const struct pair trees[] = {
	{ "web/", "web/" },
	{ "swagger-ui/", "node_modules/swagger-ui-dist/" },
	{ "xterm/", "node_modules/@xterm/" },
	{ "novnc/", "node_modules/@novnc/novnc/" },
	{ "sandbox/xterm@5.3.0/", "node_modules/@xterm/xterm/" },
	{ "sandbox/xterm-addon-fit@0.8.0/lib/xterm-addon-fit.js",
	  "node_modules/@xterm/addon-fit/lib/addon-fit.js" },
};

/* Answers with a file below the product's home. */
static int show_file(struct call *call, const char *path, const char *policy, struct err *err)
{
	const char *type = mime_of(path);
	struct pair headers[] = { { "Cache-Control", "no-cache" },
				  { "Content-Security-Policy", policy },
				  { "Cross-Origin-Opener-Policy", "same-origin" },
				  { "Referrer-Policy", "no-referrer" } };
	char full[8192];
	snprintf(full, sizeof full, "%s/%s", call->server->home, path);
	auto_close int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? err_set(err, ERR_NOT_FOUND,
					 "there is no file '%s': run 'make deps'?", path)
			       : err_set(err, errno, "open '%s'", path);
	return call_file(call, fd, type, NULL, headers, !strncmp(type, "text/html", 9) ? 4 : 1,
			 err);
}

static int show_page(struct call *call, const void *in, struct err *err)
{
	(void)in;
	return show_file(call, call->route->page->path, call->route->page->policy, err);
}

struct static_request {
	const char *rest;
};
static const struct field static_fields[] = {
	NAMED("*", STR, static_request, rest, PATH | REQUIRED, NULL),
};
static const struct schema static_schema = SCHEMA(static_request, "StaticFile", static_fields);

static int show_static(struct call *call, const void *in, struct err *err)
{
	const struct static_request *request = in;
	auto_buf struct buf clean = BUF(4096);
	/* The router has decoded the path; decoding it again is harmless only without '%'. */
	if (!strchr(request->rest, '%') &&
	    url_path_clean(arena_printf(call->arena, "/%s", request->rest), &clean) == 0)
		for (size_t i = 0; clean.data && i < COUNT(trees); i++) {
			size_t len = strlen(trees[i].name);
			bool folder = trees[i].name[len - 1] == '/';
			if (!strncmp(clean.data, trees[i].name, len) && folder == !!clean.data[len])
				return show_file(call,
						 arena_printf(call->arena, "%s%s", trees[i].value,
							      clean.data + len),
						 OWN_FILES_ONLY, err);
		}
	return err_set(err, ERR_NOT_FOUND, "there is no such file");
}

/* A credential of the address goes along, or the next page would be refused. */
struct home {
	const char *ticket, *api_key;
};
static const struct field home_fields[] = {
	STR(home, ticket, QUERY | HIDDEN, NULL),
	STR(home, api_key, QUERY | HIDDEN, NULL),
};
static const struct schema home_schema = SCHEMA(home, "Home", home_fields);

static int home(struct call *call, const void *in, struct err *err)
{
	const struct home *request = in;
	const char *value = request->ticket ? request->ticket : request->api_key;
	auto_buf struct buf to = BUF(16384);
	buf_str(&to, "/v1/docs");
	if (value) {
		buf_str(&to, request->ticket ? "?ticket=" : "?api_key=");
		url_encode(&to, value);
	}
	return call_redirect(call, to.data, err);
}

/* From /vnc and from /vnc/, with all that the address says. */
static int vnc(struct call *call, const void *in, struct err *err)
{
	const char *path = call->route->path, *query = call->query;
	(void)in;
	return call_redirect(call,
			     arena_printf(call->arena, "%sindex.html%s%s",
					  path[strlen(path) - 1] == '/' ? "" : "vnc/",
					  query && *query ? "?" : "", query ? query : ""),
			     err);
}

/* The terminal, with a coding assistant of the path's name started there. */
static int assistant(struct call *call, const void *in, struct err *err)
{
	const char *query = call->query;
	(void)in;
	return call_redirect(call,
			     arena_printf(call->arena, "terminal?command=%s%s%s",
					  call->route->path + 1, query && *query ? "&" : "",
					  query ? query : ""),
			     err);
}

/* The pages are those of a box and of the host: there they are its own files, which nobody in a box can
 * change. */
static const struct route routes[] = {
	{ "GET", "/", home, &home_schema, .flags = INTERNAL | PAGE },
	{ "GET", "/index.html", home, &home_schema, .flags = INTERNAL | PAGE },
	{ "GET", "/v1/docs", show_page, .flags = INTERNAL | PAGE, .page = &page_files[PAGE_DOCS] },
	{ "GET", "/terminal", show_page, .flags = INTERNAL | PAGE,
	  .page = &page_files[PAGE_TERMINAL] },
	{ "GET", "/codex", assistant, .flags = INTERNAL | PAGE },
	{ "GET", "/opencode", assistant, .flags = INTERNAL | PAGE },
	{ "GET", "/vnc", vnc, .flags = INTERNAL | PAGE | VIEW },
	{ "GET", "/vnc/", vnc, .flags = INTERNAL | PAGE | VIEW },
	{ "GET", "/vnc/index.html", show_page, .flags = INTERNAL | PAGE | VIEW,
	  .page = &page_files[PAGE_VNC] },
	{ "GET", "/favicon.ico", show_page, .flags = INTERNAL | VIEW,
	  .page = &page_files[PAGE_ICON] },
	{ "GET", "/static/*", show_static, &static_schema, .flags = INTERNAL | VIEW },
};
const struct route_group page_group = { "page", "Pages for people.", routes, COUNT(routes) };
