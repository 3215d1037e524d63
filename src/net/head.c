#include "net/head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/url.h"
#include "net/http.h"

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

static bool is_credential(const char *piece, size_t len)
{
	auto_buf struct buf name = BUF(64);
	const char *equals = memchr(piece, '=', len);
	if (url_query_decode(&name, piece, equals ? (size_t)(equals - piece) : len) < 0 ||
	    !name.data)
		return false;
	return !strcmp(name.data, "api_key") || !strcmp(name.data, "ticket");
}

static void put_target(struct buf *out, const char *target, const struct head_request *how)
{
	if (!strncasecmp(target, "http://", 7)) {
		const char *path = strchr(target + 7, '/');
		target = path ? path : "/";
	}
	target += how->prefix;
	const char *mark = strchr(target, '?');
	size_t path_len = mark ? (size_t)(mark - target) : strlen(target);
	if (!path_len)
		buf_str(out, "/");
	buf_add(out, target, path_len);
	if (mark && !how->strip_query)
		buf_str(out, mark);
	if (!mark || !how->strip_query)
		return;
	char before = '?';
	for (const char *at = mark + 1; *at;) {
		size_t len = strcspn(at, "&");
		if (!is_credential(at, len)) {
			buf_add(out, &before, 1);
			buf_add(out, at, len);
			before = '&';
		}
		at += len + (at[len] == '&');
	}
}

/* Cookies of the host's own stay with it. */
static void put_cookies(struct buf *out, const char *value)
{
	bool any = false;
	for (const char *at = value; *at;) {
		at += strspn(at, "; \t");
		size_t len = strcspn(at, ";");
		if (len &&
		    !(starts(at, HEAD_COOKIE) && strcspn(at, "=; ") == strlen(HEAD_COOKIE))) {
			buf_str(out, any ? "; " : "Cookie: ");
			buf_add(out, at, len);
			any = true;
		}
		at += len;
	}
	if (any)
		buf_str(out, "\r\n");
}

static bool is_stripped(const char *name, const struct head_request *how)
{
	if (is_framing(name) || !strcasecmp(name, "x-aio-box") || starts(name, "x-forwarded-for") ||
	    starts(name, "x-forwarded-prefix") || starts(name, "x-forwarded-host"))
		return true;
	if (how->keep_credentials)
		return false;
	return starts(name, "x-aio-") ||
	       (!strcasecmp(name, "authorization") && !how->keep_authorization) ||
	       !strcasecmp(name, "proxy-authorization");
}

void head_request(struct buf *out, const struct http_head *head, const struct head_request *how)
{
	const char *before = http_header(head, "x-forwarded-for");
	const char *host = http_header(head, "host"), *to = http_header(head, "upgrade");
	buf_printf(out, "%s ", head->method);
	put_target(out, head->target, how);
	buf_str(out, " HTTP/1.1\r\n");
	if (!host)
		put(out, "Host", "localhost");
	for (size_t i = 0; i < head->count; i++) {
		const struct http_header *h = &head->headers[i];
		if (is_stripped(h->name, how))
			continue;
		if (!strcasecmp(h->name, "cookie"))
			put_cookies(out, h->value);
		else
			put(out, h->name, h->value);
	}
	buf_printf(out, "X-Forwarded-For: %s%s%s\r\n", before ? before : "", before ? ", " : "",
		   how->peer);
	if (host)
		put(out, "X-Forwarded-Host", host);
	if (how->below)
		buf_printf(out, "X-Forwarded-Prefix: /s/%s\r\n", how->below);
	if (how->secret)
		put(out, "X-AIO-API-Key", how->secret);
	if (how->box)
		put(out, "X-AIO-Box", how->box);
	if (how->port)
		buf_printf(out, "X-AIO-Proxy-Port: %d\r\n", how->port);
	if (how->upgrade)
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", to);
	if (head->chunked)
		put(out, "Transfer-Encoding", "chunked");
	else if (http_header(head, "content-length"))
		buf_printf(out, "Content-Length: %lld\r\n", (long long)head->length);
	buf_str(out, "\r\n");
}

bool head_cookie(const struct http_head *head, const char *name, struct head_cookies *it, char *to,
		 size_t room)
{
	size_t name_len = strlen(name);
	for (; it->header < head->count; it->header++, it->at = NULL) {
		if (strcasecmp(head->headers[it->header].name, "cookie") != 0)
			continue;
		if (!it->at)
			it->at = head->headers[it->header].value;
		while (*it->at) {
			const char *at = it->at + strspn(it->at, "; \t");
			size_t len = strcspn(at, ";");
			it->at = at + len;
			if (len > name_len && len - name_len <= room && at[name_len] == '=' &&
			    !strncmp(at, name, name_len)) {
				memcpy(to, at + name_len + 1, len - name_len - 1);
				to[len - name_len - 1] = 0;
				return true;
			}
		}
	}
	return false;
}

/* ---- answers ---- */

/* On an address that boxes share, none may set what holds for the address. */
static bool is_for_one(const char *name)
{
	static const char *const names[] = { "set-cookie",
					     "service-worker-allowed",
					     "clear-site-data",
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

/* A cookie of a box is for its own host name only, and never one of ours. */
static void put_set_cookie(struct buf *out, const char *value)
{
	const char *name = value + strspn(value, " \t");
	if (starts(name, HEAD_COOKIE) && strchr("=; \t", name[strlen(HEAD_COOKIE)]))
		return;
	buf_str(out, "Set-Cookie: ");
	for (const char *at = value; *at;) {
		size_t len = strcspn(at, ";");
		const char *word = at + strspn(at, "; \t");
		size_t word_len = strcspn(word, "=; \t");
		if (at == value || !(word_len == 6 && !strncasecmp(word, "domain", 6))) {
			if (at != value)
				buf_str(out, ";");
			buf_add(out, at, len);
		}
		at += len;
		at += *at == ';';
	}
	buf_str(out, "\r\n");
}

static void put_header(struct buf *out, const struct http_header *h,
		       const struct head_response *how)
{
	if (is_framing(h->name) || (how->plain && !how->trusted && is_for_one(h->name)))
		return;
	if (!strcasecmp(h->name, "set-cookie") && !how->trusted) {
		put_set_cookie(out, h->value);
	} else if (!strcasecmp(h->name, "location") && how->prefix && h->value[0] == '/' &&
		   h->value[1] != '/') {
		buf_printf(out, "Location: %.*s%s\r\n", (int)how->prefix_len, how->prefix,
			   h->value);
	} else {
		put(out, h->name, h->value);
	}
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
		/* The same address is another box's, with another header. */
		put(out, "Vary", "X-AIO-Sandbox, X-AIO-Proxy-Port");
		put(out, "X-Content-Type-Options", "nosniff");
	}
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

void head_error(struct buf *out, int status, const char *detail, bool close, bool head_only)
{
	struct jw jw;
	jw_init(&jw, 8192);
	jw_open(&jw, '{');
	jw_key_str(&jw, "detail", detail);
	jw_close(&jw, '}');
	buf_printf(out,
		   "HTTP/1.1 %d %s\r\nServer: aio\r\nContent-Type: application/json\r\n"
		   "X-Content-Type-Options: nosniff\r\n%s%s%sContent-Length: %zu\r\n\r\n",
		   status, status < 500 ? "Refused" : "Unavailable",
		   status == 401 ? "WWW-Authenticate: Bearer realm=\"aiobox\"\r\n" : "",
		   status == 503 ? "Retry-After: 1\r\n" : "", close ? "Connection: close\r\n" : "",
		   jw.out.len);
	if (!head_only)
		buf_add(out, jw.out.data, jw.out.len);
	jw_done(&jw);
}

bool head_is_visit(const struct http_head *head)
{
	const char *accept = http_header(head, "accept");
	return !strcmp(head->method, "GET") && accept && strstr(accept, "text/html");
}

void head_redirect(struct buf *out, const char *to, bool close)
{
	buf_printf(out,
		   "HTTP/1.1 307 Temporary Redirect\r\nServer: aio\r\nLocation: %s\r\n"
		   "Referrer-Policy: no-referrer\r\n%sContent-Length: 0\r\n\r\n",
		   to, close ? "Connection: close\r\n" : "");
}

static const char sign_in[] =
	"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>aiobox</title>"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
	"<style>:root{color-scheme:light dark;--line:light-dark(#d5d9e0,#343a46)}"
	"body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:18vh auto;padding:0 1.5rem;"
	"color:light-dark(#181b22,#e8eaee);background:light-dark(#fff,#0f1115)}"
	"h1{font-size:1.4rem;margin:0}p{color:light-dark(#5b6472,#9aa3b2);margin:.4rem 0 1.4rem}"
	"form{display:flex;gap:.6rem}input,button{font:inherit;padding:.5rem .8rem;border-radius:8px;"
	"border:1px solid var(--line)}input{flex:1;min-width:0;background:transparent;color:inherit}"
	"button{background:light-dark(#4f46e5,#6d6af0);border-color:transparent;color:#fff}</style>"
	"<h1>This sandbox wants a key</h1>"
	"<p>Its token, as <code>aio create</code> printed it, or a key that was configured.</p>"
	"<form><input name=\"api_key\" type=\"password\" aria-label=\"Token or key\" required autofocus>"
	"<button>Open</button></form></html>";

void head_sign_in(struct buf *out, bool close)
{
	buf_printf(
		out,
		"HTTP/1.1 401 Refused\r\nServer: aio\r\nContent-Type: text/html; charset=utf-8\r\n"
		"WWW-Authenticate: Bearer realm=\"aiobox\"\r\nX-Content-Type-Options: nosniff\r\n"
		"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'\r\n"
		"Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n%sContent-Length: %zu\r\n\r\n%s",
		close ? "Connection: close\r\n" : "", sizeof sign_in - 1, sign_in);
}
