#include "net/head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/cookie.h"
#include "net/guard.h"
#include "net/http.h"
#include "net/target.h"
#include "net/wire.h"

enum { VALUE_MAX = 16384 }; /* as long as a credential can be */

/* Of one hop, or written by us. */
static bool is_framing(const char *name)
{
	static const char *const names[] = { "connection",         "keep-alive", "proxy-connection",
					     "proxy-authenticate", "te",         "trailer",
					     "transfer-encoding",  "upgrade",    "content-length" };
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

static void put(struct buf *out, const char *name, const char *value)
{
	buf_str(out, name);
	buf_str(out, ": ");
	buf_str(out, value);
	buf_str(out, "\r\n");
}

static bool starts(const char *text, const char *with)
{
	return !strncasecmp(text, with, strlen(with));
}

/* ---- requests ---- */

static bool is_secret(const struct head_request *how, const char *text, size_t len)
{
	return how->is_secret && len && how->is_secret(how->arg, text, len);
}

static bool is_credential(const char *piece, size_t len, const struct head_request *how)
{
	auto_buf struct buf name = BUF(64), value = BUF(VALUE_MAX);
	const char *equals = memchr(piece, '=', len);
	size_t name_len = equals ? (size_t)(equals - piece) : len;
	size_t at = equals ? name_len + 1 : len;
	(void)url_query_decode(&name, piece, name_len);
	(void)url_query_decode(&value, piece + at, len - at);
	bool ticket = name.data && !strcmp(name.data, "ticket");
	if (how->strip_query && name.data && (ticket || !strcmp(name.data, "api_key")))
		return true;
	/* Of whichever box: only that one could tell. */
	if (how->is_secret && ticket && value.len == AUTH_TICKET_ROOM - 1)
		return true;
	return is_secret(how, piece + at, len - at) ||
	       (value.len != len - at && is_secret(how, value.data, value.len));
}

/* `page`: of an address that was shown, where a credential may be deeper. */
static bool put_query(struct buf *out, const char *query, const struct head_request *how, bool page)
{
	bool any = false;
	char before = '?';
	for (const char *at = query; *at;) {
		size_t len = strcspn(at, "&");
		if (is_credential(at, len, how) || (page && auth_in_piece(at, len))) {
			any = true;
		} else {
			buf_add(out, &before, 1);
			buf_add(out, at, len);
			before = '&';
		}
		at += len + (at[len] == '&');
	}
	return any;
}

bool head_query(struct buf *out, const char *query, const struct head_request *how)
{
	auto_buf struct buf left = BUF(out->cap);
	bool any = query && put_query(&left, query, how, false);
	if (any)
		buf_add(out, left.data, left.len);
	else if (query)
		buf_printf(out, "?%s", query);
	return any;
}

static void put_target(struct buf *out, const struct http_head *head,
		       const struct head_request *how)
{
	struct target target = { "/", 1, NULL };
	(void)target_split(head, &target, NULL); /* or it would have been refused */
	if (how->before)
		buf_str(out, how->before);
	if (target.path_len <= how->prefix)
		buf_str(out, "/");
	else
		buf_add(out, target.path + how->prefix, target.path_len - how->prefix);
	(void)head_query(out, target.query, how);
}

/* The address of a page that may have been opened with a credential. */
static void put_referer(struct buf *out, const char *value, const struct head_request *how)
{
	struct head_request all = *how;
	all.strip_query = true;
	size_t len = strcspn(value, "?");
	buf_printf(out, "Referer: %.*s", (int)len, value);
	if (value[len])
		(void)put_query(out, value + len + 1, &all, true);
	buf_str(out, "\r\n");
}

static bool keeps_cookie(const char *cookie, size_t len, const struct head_request *how)
{
	size_t name = strcspn(cookie, "=; ");
	if (cookie_is_ours(cookie, name))
		return false;
	return name + 1 >= len || !is_secret(how, cookie + name + 1, len - name - 1);
}

/* Cookies of the host's own stay with it. */
static void put_cookies(struct buf *out, const char *value, const struct head_request *how)
{
	bool any = false;
	for (const char *at = value; *at;) {
		at += strspn(at, "; \t");
		size_t len = strcspn(at, ";");
		if (len && keeps_cookie(at, len, how)) {
			buf_str(out, any ? "; " : "Cookie: ");
			buf_add(out, at, len);
			any = true;
		}
		at += len;
	}
	if (any)
		buf_str(out, "\r\n");
}

/* "Bearer TOKEN", or any scheme, or none. */
static bool names_secret(const char *value, const struct head_request *how)
{
	const char *word = value + strcspn(value, " \t");
	word += strspn(word, " \t");
	return is_secret(how, value, strlen(value)) || is_secret(how, word, strlen(word));
}

static bool is_forwarded(const char *name)
{
	return starts(name, "x-forwarded-") || !strcasecmp(name, "forwarded") ||
	       !strcasecmp(name, "x-real-ip");
}

static bool is_stripped(const struct http_header *h, const struct head_request *how)
{
	const char *name = h->name;
	if (how->program && (is_forwarded(name) || !strcasecmp(name, "host")))
		return true;
	if (is_framing(name) || !strcasecmp(name, WIRE_BOX) || !strcasecmp(name, WIRE_VIEW) ||
	    !strcasecmp(name, WIRE_TICKET) || starts(name, "x-forwarded-for") ||
	    starts(name, "x-forwarded-prefix") || starts(name, "x-forwarded-host"))
		return true;
	if (how->keep_credentials)
		return false;
	return starts(name, WIRE_OURS) ||
	       (!strcasecmp(name, "authorization") &&
		(!how->keep_authorization || names_secret(h->value, how))) ||
	       !strcasecmp(name, "proxy-authorization");
}

static void put_origin(struct buf *out, const char *value, const char *host,
		       const struct head_request *how)
{
	if (how->program && guard_origin(value, host, NULL))
		buf_printf(out, "Origin: http://localhost:%d\r\n", how->program);
	else
		put(out, "Origin", value);
}

static void put_forwarded(struct buf *out, const char *host, const char *before,
			  const struct head_request *how)
{
	if (how->program)
		before = NULL;
	buf_printf(out, "X-Forwarded-For: %s%s%s\r\n", before ? before : "", before ? ", " : "",
		   how->peer);
	if (host && !how->program)
		put(out, "X-Forwarded-Host", host);
}

static void put_framing(struct buf *out, const struct http_head *head)
{
	if (head->chunked)
		put(out, "Transfer-Encoding", "chunked");
	else if (http_header(head, "content-length"))
		buf_printf(out, "Content-Length: %lld\r\n", (long long)head->length);
	buf_str(out, "\r\n");
}

void head_request(struct buf *out, const struct http_head *head, const struct head_request *how)
{
	const char *before = http_header(head, "x-forwarded-for");
	const char *host = http_header(head, "host"), *to = http_header(head, "upgrade");
	buf_printf(out, "%s ", head->method);
	put_target(out, head, how);
	buf_str(out, " HTTP/1.1\r\n");
	if (how->program)
		buf_printf(out, "Host: localhost:%d\r\n", how->program);
	else if (!host)
		put(out, "Host", "localhost");
	for (size_t i = 0; i < head->count; i++) {
		const struct http_header *h = &head->headers[i];
		if (is_stripped(h, how))
			continue;
		if (!strcasecmp(h->name, "cookie"))
			put_cookies(out, h->value, how);
		else if (!strcasecmp(h->name, "referer"))
			put_referer(out, h->value, how);
		else if (!strcasecmp(h->name, "origin"))
			put_origin(out, h->value, host, how);
		else
			put(out, h->name, h->value);
	}
	put_forwarded(out, host, before, how);
	for (size_t i = 0; i < how->own_count; i++)
		if (how->own[i].value && *how->own[i].value)
			put(out, how->own[i].name, how->own[i].value);
	if (how->upgrade)
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", to);
	put_framing(out, head);
}

void head_forward(struct buf *out, const struct http_head *head, const struct head_forward *how)
{
	const char *hop = http_header(head, "connection");
	buf_printf(out, "%s %s HTTP/1.1\r\n", head->method, how->target);
	put(out, "Host", how->host);
	for (size_t i = 0; i < head->count; i++) {
		const struct http_header *h = &head->headers[i];
		if (!is_framing(h->name) && strcasecmp(h->name, "host") != 0 &&
		    strcasecmp(h->name, "proxy-authorization") != 0 &&
		    !http_has_token(hop, h->name))
			put(out, h->name, h->value);
	}
	if (how->authorization)
		put(out, "Proxy-Authorization", how->authorization);
	if (how->via)
		put(out, "Via", how->via);
	if (how->upgrade)
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n",
			   http_header(head, "upgrade"));
	put_framing(out, head);
}

/* ---- answers ---- */

/* On an address that boxes share, none may set what holds for the address. */
static bool is_for_one(const char *name)
{
	static const char *const names[] = { "set-cookie",
					     "www-authenticate", /* the password would be for all */
					     "service-worker-allowed",
					     "strict-transport-security",
					     "public-key-pins",
					     "alt-svc",
					     "origin-agent-cluster",
					     "nel",
					     "report-to",
					     "accept-ch",
					     "x-content-type-options" };
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

/* Appends the path of a server that does not know the prefix it is shown at. */
static void put_below(struct buf *out, const char *path, size_t len, const char *prefix)
{
	size_t own = strlen(prefix);
	bool is_below = len >= own && !strncmp(path, prefix, own) &&
			(len == own || strchr("/?#", path[own]));
	if (!is_below)
		buf_str(out, prefix);
	buf_add(out, path, len);
}

static bool is_attribute(const char *word, const char *name)
{
	size_t len = strcspn(word, "=; \t");
	return len == strlen(name) && !strncasecmp(word, name, len);
}

static void put_attribute(struct buf *out, const char *at, size_t len,
			  const struct head_response *how)
{
	const char *word = at + strspn(at, " \t"), *value = memchr(at, '=', len);
	if (value)
		value += 1 + strspn(value + 1, " \t");
	/* A program names "localhost", or what is not its own: without it the cookie is its own. */
	if ((!how->trusted || how->program) && is_attribute(word, "domain"))
		return;
	if (how->prefix && is_attribute(word, "path") && value && *value == '/') {
		size_t path = (size_t)(at + len - value);
		buf_str(out, "; Path=");
		put_below(out, value, path == 1 ? 0 : path, how->prefix);
		return;
	}
	buf_str(out, ";");
	buf_add(out, at, len);
}

/* A cookie is for the server's own path, and of a box for its own host name only, and never one of
 * ours. */
static void put_set_cookie(struct buf *out, const char *value, const struct head_response *how)
{
	struct head_response as = *how;
	const char *name = value + strspn(value, " \t");
	/* One without a name is sent as its value, which may look like ours. */
	if (*name == '=' || cookie_is_ours(name, strcspn(name, "=; \t")))
		return;
	if (starts(name, "__Host-")) /* it would not be one at another path */
		as.prefix = NULL;
	size_t len = strcspn(value, ";");
	buf_printf(out, "Set-Cookie: %.*s", (int)len, value);
	for (const char *at = value + len; *at; at += len) {
		at++;
		len = strcspn(at, ";");
		put_attribute(out, at, len, &as);
	}
	buf_str(out, "\r\n");
}

/* Whether an authority is that of the program itself. */
static bool is_programs(const char *authority, size_t len, int port)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]", "0.0.0.0" };
	char own[32];
	for (size_t i = 0; port && i < COUNT(names); i++) {
		int n = snprintf(own, sizeof own, "%s:%d", names[i], port);
		if (len == (size_t)n && !strncasecmp(authority, own, len))
			return true;
	}
	return false;
}

const char *head_own_path(const char *location, const struct head_response *how)
{
	if (!starts(location, "http://") && !starts(location, "https://"))
		return *location == '/' && location[1] != '/' ? location : NULL;
	const char *authority = strstr(location, "://") + 3;
	size_t len = strcspn(authority, "/?#");
	bool own = how->host && len == strlen(how->host) && !strncasecmp(authority, how->host, len);
	if (!own && !is_programs(authority, len, how->program))
		return NULL;
	/* As a path, "//x" would be another host. */
	return strncmp(authority + len, "//", 2) != 0 ? authority + len : NULL;
}

/* Programs make absolute URLs of the Host that they see: the client gets the path, at its own address. */
static void put_location(struct buf *out, const char *value, const struct head_response *how)
{
	const char *path = head_own_path(value, how);
	buf_str(out, "Location: ");
	if (path && how->prefix)
		put_below(out, path, strlen(path), how->prefix);
	else if (path)
		buf_printf(out, "%s%s", *path == '/' ? "" : "/", path);
	else
		buf_str(out, value);
	buf_str(out, "\r\n");
}

static void put_header(struct buf *out, const struct http_header *h,
		       const struct head_response *how)
{
	if (is_framing(h->name) || (how->plain && !how->trusted && is_for_one(h->name)))
		return;
	if (how->forwarded) {
		put(out, h->name, h->value);
		return;
	}
	/* Browsers clear the cookies of the whole domain, neighbours' included. */
	if ((!how->trusted || how->guest) && !strcasecmp(h->name, "clear-site-data"))
		return;
	if (how->guest && !strcasecmp(h->name, "service-worker-allowed"))
		return;
	if (!strcasecmp(h->name, "set-cookie"))
		put_set_cookie(out, h->value, how);
	else if (!strcasecmp(h->name, "location") && (how->prefix || how->program))
		put_location(out, h->value, how);
	else
		put(out, h->name, h->value);
}

void head_response(struct buf *out, const struct http_head *head, const char *reason,
		   const struct head_response *how)
{
	const char *to = http_header(head, "upgrade");
	buf_printf(out, "HTTP/1.1 %d %s\r\n", head->status, reason);
	for (size_t i = 0; i < head->count; i++)
		put_header(out, &head->headers[i], how);
	if (how->plain && !how->trusted && head->status >= 200) {
		/* Without allow-same-origin a document of a box has an origin that is nobody's. */
		put(out, "Content-Security-Policy",
		    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads");
		put(out, "X-Content-Type-Options", "nosniff");
	}
	if (how->varies && !how->trusted && head->status >= 200)
		put(out, "Vary", WIRE_SANDBOX ", " WIRE_PORT);
	if (how->cookie)
		put(out, "Set-Cookie", how->cookie);
	if (how->upgrade)
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", to ? to : "");
	else if (how->close)
		put(out, "Connection", "close");
	if (how->kind == BODY_CHUNKED)
		put(out, "Transfer-Encoding", "chunked");
	else if (how->length_known)
		put(out, "Content-Length", http_header(head, "content-length"));
	buf_str(out, "\r\n");
}

void head_answer(struct buf *out, const struct answer *answer, const char *body, bool close)
{
	buf_printf(out, "HTTP/1.1 %d %s\r\nServer: aio\r\n", answer->status,
		   http_reason(answer->status));
	if (answer->type) {
		put(out, "Content-Type", answer->type);
		put(out, "X-Content-Type-Options", "nosniff");
	}
	for (size_t i = 0; i < answer->header_count; i++)
		put(out, answer->headers[i].name, answer->headers[i].value);
	if (close)
		put(out, "Connection", "close");
	buf_printf(out, "Content-Length: %lld\r\n\r\n", (long long)answer->length);
	if (body)
		buf_add(out, body, (size_t)answer->length);
}

void head_error(struct buf *out, int status, const char *detail, bool close, bool head_only)
{
	struct jw jw;
	jw_init(&jw, 8192);
	jw_open(&jw, '{');
	jw_key_str(&jw, "detail", detail);
	jw_close(&jw, '}');
	struct answer answer = { status, "application/json", (int64_t)jw.out.len,
				 .header_count = 0 };
	if (status == 401)
		answer.headers[answer.header_count++] =
			(struct pair){ "WWW-Authenticate", "Bearer realm=\"aiobox\"" };
	if (status == 503)
		answer.headers[answer.header_count++] = (struct pair){ "Retry-After", "1" };
	head_answer(out, &answer, head_only ? NULL : jw.out.data, close);
	jw_done(&jw);
}

bool head_is_visit(const struct http_head *head)
{
	const char *accept = http_header(head, "accept");
	const char *mode = http_header(head, "sec-fetch-mode");
	if (head->upgrade ||
	    (strcmp(head->method, "GET") != 0 && strcmp(head->method, "HEAD") != 0))
		return false;
	return mode ? !strcmp(mode, "navigate") : accept && strstr(accept, "text/html");
}

bool head_is_foreign_frame(const struct http_head *head)
{
	const char *site = http_header(head, "sec-fetch-site");
	const char *dest = http_header(head, "sec-fetch-dest");
	return site && dest && !strcmp(site, "cross-site") && strcmp(dest, "document") != 0;
}

void head_redirect(struct buf *out, int status, const char *to, const char *cookie, bool close)
{
	const struct answer answer = { status, NULL, 0,
				       .headers = { { "Location", to },
						    { "Referrer-Policy", "no-referrer" },
						    { "Cache-Control", "no-store" },
						    { "Set-Cookie", cookie } },
				       .header_count = cookie ? 4 : 3 };
	head_answer(out, &answer, NULL, close);
}

bool head_trade(struct buf *out, const char *query, const struct auth *auth, bool guest)
{
	char ticket[AUTH_TICKET_ROOM];
	int ttl;
	struct auth_request by = { .query = query, .no_ticket = !guest };
	if (!query || !auth_enabled(auth) || auth_check(auth, &by, NULL) < 0 ||
	    (guest ? auth_guest_ticket(auth, ticket, sizeof ticket)
		   : auth_ticket(auth, AUTH_ALL, ticket, sizeof ticket, &ttl)) < 0)
		return false;
	size_t before = out->len;
	(void)head_query(out, query, &(struct head_request){ .strip_query = true });
	buf_printf(out, "%cticket=%s", out->len > before ? '&' : '?', ticket);
	return true;
}

void head_preflight(struct buf *out, const struct http_head *head, const char *origin, bool close)
{
	struct pair allowed[GUARD_ALLOWS];
	guard_allow(head, allowed);
	buf_printf(out,
		   "HTTP/1.1 204 No Content\r\nServer: aio\r\nVary: Origin\r\n"
		   "Access-Control-Allow-Origin: %s\r\nAccess-Control-Allow-Credentials: true\r\n",
		   origin);
	for (size_t i = 0; i < GUARD_ALLOWS; i++)
		put(out, allowed[i].name, allowed[i].value);
	buf_str(out, close ? "Connection: close\r\n\r\n" : "\r\n");
}
