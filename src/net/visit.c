#include "net/visit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/auth.h"
#include "net/conn.h"
#include "net/cookie.h"
#include "net/guard.h"
#include "net/head.h"
#include "net/server.h"

int visit_cookie(const struct visit *visit)
{
	const struct http_head *head = &visit->conn->http.head;
	char page[URL_HOST_MAX + 32], name[COOKIE_NAME_ROOM];
	guard_page(head, page, sizeof page);
	bool foreign = guard_unseen(head, false) || (*page && !head_is_visit(head));
	if (foreign && !guard_origin(page, visit->host, NULL))
		return -1;
	cookie_name(name, visit->host, true);
	int scope = cookie_check(visit->auth, head, name);
	return scope == AUTH_GUEST ? -1 : scope; /* those are a host's */
}

static bool is_visit(const struct visit *visit)
{
	return auth_enabled(visit->auth) && visit->host && head_is_visit(&visit->conn->http.head);
}

static bool redirect(const struct visit *visit, const char *to, const char *cookie)
{
	struct err ignored;
	struct sink *sink = &visit->conn->sink;
	struct answer answer = { 303, NULL, 0,
				 .headers = { { "Location", to },
					      { "Referrer-Policy", "no-referrer" },
					      { "Cache-Control", "no-store" },
					      { "Set-Cookie", cookie } },
				 .header_count = cookie ? 4 : 3 };
	(void)sink->begin(sink, &answer, &ignored);
	return true;
}

bool visit_trade(const struct visit *visit)
{
	auto_buf struct buf to = BUF(1 << 20);
	buf_printf(&to, "//%s%s", visit->host ? visit->host : "", visit->path);
	return is_visit(visit) && head_trade(&to, visit->query, visit->auth, visit->guest) &&
	       redirect(visit, to.data, NULL);
}

bool visit_clean(const struct visit *visit)
{
	auto_buf struct buf to = BUF(1 << 20);
	char name[COOKIE_NAME_ROOM];
	if (!is_visit(visit) || !visit->query)
		return false;
	if (head_is_foreign_frame(&visit->conn->http.head))
		return visit_trade(visit);
	buf_printf(&to, "//%s%s", visit->host, visit->path);
	if (!head_query(&to, visit->query, &(struct head_request){ .strip_query = true }))
		return false;
	struct auth_request by = { .query = visit->query, .view = true };
	int scope = auth_check(visit->auth, &by, NULL);
	/* Who has a cookie for all keeps it, whatever link they look at. */
	bool kept = scope == AUTH_VIEW && visit_cookie(visit) == AUTH_ALL;
	cookie_name(name, visit->host, true);
	auto_free char *cookie =
		scope < 0 || kept ? NULL : cookie_new(visit->auth, (enum auth_scope)scope, name);
	return redirect(visit, to.data, cookie);
}

bool visit_ask_key(const struct visit *visit)
{
	struct err ignored;
	struct answer answer;
	struct sink *sink = &visit->conn->sink;
	server_ask_key *ask = visit->conn->server->ask_key;
	auto_buf struct buf back = BUF(1 << 20), page = BUF(1 << 20);
	if (!ask || !is_visit(visit))
		return false;
	buf_str(&back, visit->path);
	(void)head_query(&back, visit->query, &(struct head_request){ .strip_query = true });
	if (!ask("", back.data ? back.data : "/", &answer, &page))
		return false;
	if (sink->begin(sink, &answer, &ignored) == 0)
		(void)sink->write(sink, page.data, page.len, &ignored);
	return true;
}
