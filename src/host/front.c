/* What the host decides about a request before any byte of it reaches a box: whose it is, who may
 * send it, and what of it the box may see. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "api/routes.h"
#include "api/sign_in.h"
#include "base/err.h"
#include "base/jwt.h"
#include "base/own.h"
#include "base/url.h"
#include "host/address.h"
#include "host/boxes.h"
#include "host/exec_tap.h"
#include "host/history.h"
#include "host/link.h"
#include "host/own_name.h"
#include "host/places.h"
#include "host/ward.h"
#include "net/auth.h"
#include "net/call.h"
#include "net/cookie.h"
#include "net/dial.h"
#include "net/guard.h"
#include "net/target.h"
#include "net/wire.h"

enum { REFUSED_MS = 1000, TOKENS_MAX = 8 };

struct front_request {
	struct link *link;
	const struct gateway_config *config;
	const struct http_head *head;
	const char *host, *origin, *path; /* path: without what names the box */
	size_t path_len;
	char *own_path; /* the same alone */
	const char *query;
	struct address address;
	enum place place;
	struct box *box; /* NULL: the host's own server, or there is none */
	bool by_query;   /* the credential was in the query */
	bool by_guest;   /* it was a ticket for guests there */
	bool view;       /* it is for looking at the desktop only */
	int had_cookie;  /* the scope of a cookie that it came with, or -1 */
	int tokens;      /* how many texts like a JWT were looked at for this head */
	bool known;      /* it is from a page that may call this address */
	char outer[TARGET_OUTER_MAX +
		   1];       /* what a proxy before the host has taken from the path, or "" */
	struct box *entered; /* counted among its active requests, by nobody else yet */
};

/* Whether the host answers in the box's place, by a row with this flag. */
static bool is_ticket(const struct front_request *r, unsigned flag)
{
	return r->place == TO_TICKETS && places_ticket_is(r->own_path, flag);
}

/* Pages of a box may call that box, at whichever of its ports. */
static bool same_box(const struct front_request *r, const char *page)
{
	struct address from;
	char name[URL_HOST_MAX + 1];
	int port, own_port;
	const char *authority = strstr(page, "://");
	struct http_head head = { .target = (char *)"/", .count = 1 };
	head.headers[0] = (struct http_header){ "host", authority ? authority + 3 : "" };
	return r->address.own_origin && address_find(&head, &r->config->names, &from, NULL) == 0 &&
	       from.own_origin && !strcmp(from.id, r->address.id) &&
	       url_host_split(head.headers[0].value, name, sizeof name, &port) == 0 &&
	       url_host_split(r->host, name, sizeof name, &own_port) == 0 && port == own_port;
}

/* Whether the host, or one of its boxes, would take it. Signatures take the loop's time: what comes
 * after a few is taken for secret. */
static bool is_secret(void *arg, const char *text, size_t len)
{
	struct front_request *r = arg;
	if (jwt_is_like(text, len) && ++r->tokens > TOKENS_MAX)
		return true;
	return boxes_have_token(r->config->boxes, text, len) ||
	       auth_knows(r->config->host_auth, text, len) ||
	       auth_knows(r->config->keys, text, len);
}

/* The answer is the host's own: whole, in link->answer. */
static int answer_with(const struct front_request *r, struct buf *answer, struct err *err)
{
	r->link->answer = xstrndup(answer->data, answer->len);
	return err_set(err, ERR_NOT_FOUND, "the host answers itself");
}

static int redirect(const struct front_request *r, int status, const char *to, const char *cookie,
		    struct err *err)
{
	auto_buf struct buf out = BUF(r->config->max_head + 4096);
	head_redirect(&out, status, to, cookie, link_closes(r->link, r->head));
	return answer_with(r, &out, err);
}

static bool is_known(const struct front_request *r)
{
	char page[URL_HOST_MAX + 32];
	guard_page(r->head, page, sizeof page);
	return guard_knows(&r->config->guard, r->head) || (*page && same_box(r, page));
}

/* Where the plain address is the default box's own, its pages there can call others by a path or header:
 * that they are of the same origin says nothing then. */
static bool is_neighbours(const struct front_request *r)
{
	char page[URL_HOST_MAX + 32];
	const char *site = http_header(r->head, "sec-fetch-site");
	if (!r->config->names.plain_is_default || !r->address.named || r->address.own_origin ||
	    !strcmp(r->address.id, "default") || own_name_is_visit(r->head))
		return false;
	guard_page(r->head, page, sizeof page);
	return (site && !strcmp(site, "same-origin")) ||
	       (*page && guard_origin(page, r->host, NULL));
}

static int check_page(struct front_request *r, struct err *err)
{
	r->known = is_known(r);
	if (r->box && !auth_enabled(r->box->auth) && is_neighbours(r))
		return err_set(err, ERR_FORBIDDEN,
			       "pages of the sandbox 'default' may not use other sandboxes");
	if (http_header(r->head, "service-worker") && !r->address.own_origin)
		return err_set(err, ERR_FORBIDDEN,
			       "no service worker on an address that boxes share");
	const struct guard_caller caller = {
		.head = r->head,
		.open = r->box && !auth_enabled(r->box->auth),
		.known = r->known,
		.frames = r->address.port != 0,
	};
	return guard_check(&r->config->guard, &caller, err);
}

/* ---- credentials ---- */

/* Of other boxes than the default one even the health is for who may call them: it would tell that
 * they are there. */
static bool is_open(const struct front_request *r)
{
	if (!strcmp(r->own_path, SIGN_IN_PATH))
		return !r->head->chunked && r->head->length <= SIGN_IN_MAX;
	return is_ticket(r, PUBLIC) ||
	       (r->place == TO_BOX && !r->address.port && !strcmp(r->address.id, "default") &&
		route_flagged(api_groups, PUBLIC, r->own_path));
}

static bool is_preflight(const struct front_request *r)
{
	return r->origin && !strcmp(r->head->method, "OPTIONS") &&
	       http_header(r->head, "access-control-request-method");
}

/* Browsers ask without credentials whether a page may send a request: so nothing of that reaches a
 * box, nor says whether there is one. */
static int answer_preflight(const struct front_request *r, struct err *err)
{
	if (!r->known)
		return guard_foreign(r->origin, err);
	auto_buf struct buf out = BUF(r->config->max_head + 4096);
	head_preflight(&out, r->head, r->origin, link_closes(r->link, r->head));
	return answer_with(r, &out, err);
}

/* A cookie is one box's where the name of the address is, and the default box's where nothing names
 * one: there it comes from pages of the host's own, because those of boxes have no origin. */
static bool takes_cookie(const struct front_request *r)
{
	return r->address.own_origin || (!r->address.named && !r->address.port);
}

/* Whether a page of this very name asks, or one of an origin that was configured. */
static bool is_own_page(const struct front_request *r)
{
	char page[URL_HOST_MAX + 32];
	guard_page(r->head, page, sizeof page);
	return r->address.own_origin && (guard_knows(&r->config->guard, r->head) ||
					 (*page && guard_origin(page, r->host, NULL)));
}

/* The scope of a cookie that lets the request in, or -1. */
static int cookie_scope(const struct front_request *r)
{
	char name[COOKIE_NAME_ROOM];
	/* A neighbour below the same domain has the browser send it, too; and so has a program of this box, at
	 * the name of its port. */
	if (!r->box || !takes_cookie(r) || (!is_own_page(r) && guard_unseen(r->head, false)))
		return -1;
	cookie_name(name, r->host, !r->address.named);
	int scope = cookie_check(r->box->auth, r->head, name);
	if (scope != AUTH_GUEST)
		return scope;
	return r->place == TO_BOX && r->address.port ? AUTH_ALL : -1;
}

/* What the query alone is good for, or -1: it goes before a cookie, which the browser sends whatever link is
 * followed. */
static int query_scope(const struct front_request *r, const struct auth *auth)
{
	return auth_check(auth, &(struct auth_request){ .query = r->query, .view = true }, NULL);
}

/* ---- pages, and where they are ---- */

/* Whether somebody opens a page of a box at an address that boxes share. */
static bool is_away(const struct front_request *r)
{
	const struct address *at = &r->address;
	if (at->own_origin || at->port || (at->named && !at->prefix))
		return false;
	if (at->hosts && places_is_page(r->own_path))
		return false;
	if (!at->named)
		return own_name_is_page(r->own_path) && own_name_is_visit(r->head);
	return head_is_visit(r->head) &&
	       (!r->path_len || places_is_page(r->own_path) || own_name_is_page(r->own_path));
}

/* What the caller is known here for, other than by a ticket in the query: its scope, or -1. */
static int known_scope(const struct front_request *r)
{
	const struct auth_request by = { .authorization = http_header(r->head, "authorization"),
					 .api_key_header = http_header(r->head, WIRE_KEY),
					 .query = r->query,
					 .no_ticket = true };
	if (!r->box || !auth_enabled(r->box->auth) || query_scope(r, r->box->auth) == AUTH_VIEW)
		return -1;
	return auth_check(r->box->auth, &by, NULL) == AUTH_ALL ? AUTH_ALL : cookie_scope(r);
}

/* Who is signed in here is not asked for a key there. A ticket goes along as it is: none renews itself. */
static void add_query(const struct front_request *r, struct buf *to)
{
	char ticket[AUTH_TICKET_ROOM];
	int ttl, scope = known_scope(r);
	bool knows = scope >= 0 && auth_ticket(r->box->auth, (enum auth_scope)scope, ticket,
					       sizeof ticket, &ttl) == 0;
	size_t before = to->len;
	(void)head_query(to, r->query, &(struct head_request){ .strip_query = knows });
	if (knows)
		buf_printf(to, "%cticket=%s", to->len > before ? '&' : '?', ticket);
}

/* The same at the name of a port, where a program's service worker sees the address before the host does: what
 * it finds there opens nothing but such names. */
static void add_guest_query(const struct front_request *r, struct buf *to)
{
	char ticket[AUTH_TICKET_ROOM];
	bool knows = known_scope(r) == AUTH_ALL &&
		     auth_guest_ticket(r->box->auth, ticket, sizeof ticket) == 0;
	size_t before = to->len;
	if (!knows && r->box && head_trade(to, r->query, r->box->auth, true))
		return;
	(void)head_query(to, r->query,
			 &(struct head_request){ .strip_query = r->box &&
								auth_enabled(r->box->auth) });
	if (knows)
		buf_printf(to, "%cticket=%s", to->len > before ? '&' : '?', ticket);
}

/* False: there is no page that says where another one is. */
static bool tell_home(const struct front_request *r, const char *to)
{
	auto_buf struct buf page = BUF(1 << 20), out = BUF(1 << 20);
	struct answer answer;
	struct err ignored;
	if (!own_name_tell(to, r->outer, &answer, &page))
		return false;
	head_answer(&out, &answer, page.data, link_closes(r->link, r->head));
	(void)answer_with(r, &out, &ignored);
	return true;
}

/* Without an origin a program's page loads no modules and opens no WebSocket, which development servers need:
 * who opens one is led to the name of its port, where it has an origin that is not the API's. -1: so it is. */
static int send_to_port(const struct front_request *r, struct err *err)
{
	static const char *const forms[] = { "/proxy/", "/absproxy/" };
	const struct address *at = &r->address;
	auto_buf struct buf to = BUF(r->config->max_head + 512);
	char id[BOX_ID_MAX + 8];
	if (at->own_origin || at->port || (at->named && !at->prefix) || !own_name_is_visit(r->head))
		return 0;
	for (size_t i = 0; i < COUNT(forms); i++) {
		size_t skip = strlen(forms[i]);
		bool is = !strncmp(r->own_path, forms[i], skip);
		size_t len = is ? strcspn(r->own_path + skip, "/") : 0;
		int port = target_port(r->own_path + skip, len);
		if (!is || !port)
			continue;
		snprintf(id, sizeof id, "%d-%s", port, at->id);
		/* Where the name may not resolve, a page without an origin is better than none. */
		if (own_name_find(r->head, r->config->guard.domain, id, &to) != OWN_NAME_KNOWN)
			return 0;
		const char *path = r->own_path + (i == 0 ? skip + len : 0);
		buf_printf(&to, "%s%s", r->outer, *path ? path : "/");
		add_guest_query(r, &to);
		return redirect(r, 307, to.data, NULL, err);
	}
	return 0;
}

/* Who opens a page of a box is led to the box's own name: elsewhere the page would have no origin. -1: so
 * it is, or there is no such name. */
static int send_home(const struct front_request *r, struct err *err)
{
	auto_buf struct buf to = BUF(r->config->max_head + 512);
	if (!is_away(r))
		return send_to_port(r, err);
	enum own_name known = own_name_find(r->head, r->config->guard.domain, r->address.id, &to);
	if (known != OWN_NAME_NONE) {
		buf_printf(&to, "%s%s", r->outer, r->path_len ? "" : "/");
		buf_add(&to, r->path, r->path_len);
		add_query(r, &to);
	}
	if (known == OWN_NAME_KNOWN || (known == OWN_NAME_UNSURE && r->address.named))
		return redirect(r, 307, to.data, NULL, err);
	if (!r->address.named && tell_home(r, to.len ? to.data : ""))
		return -1;
	return err_set(err, ERR_NOT_FOUND,
		       "pages of a sandbox need a name of its own: start the host with "
		       "--domain, or open it as %s.localhost",
		       r->address.id);
}

static void note_refusal(const struct front_request *r)
{
	/* Whoever can reach the host can cause this: not so often that it drives out all else. */
	int64_t now = r->link->loop->now_ms;
	if (now - r->box->refused_ms < REFUSED_MS)
		return;
	r->box->refused_ms = now;
	const struct history_denied denied = {
		.time = NAN,
		.by = "host",
		.port = INT_ABSENT,
		.reason = "credentials",
		.times = INT_ABSENT,
	};
	r->config->event(r->config->arg, r->box, HISTORY_DENIED, &denied);
}

/* False: there is no page to ask by. */
static bool ask_key(const struct front_request *r)
{
	auto_buf struct buf back = BUF(r->config->max_head + 16), page = BUF(1 << 20),
			    out = BUF(1 << 20);
	auto_free char *prefix =
		xasprintf("%s%.*s", r->outer, (int)r->address.prefix, r->path - r->address.prefix);
	struct answer answer;
	struct err ignored;
	buf_add(&back, r->path, r->path_len);
	(void)head_query(&back, r->query, &(struct head_request){ .strip_query = true });
	if (!sign_in_ask(prefix, back.len ? back.data : "/", &answer, &page))
		return false;
	head_answer(&out, &answer, page.data, link_closes(r->link, r->head));
	(void)answer_with(r, &out, &ignored);
	return true;
}

static bool is_hosts(void *arg, const char *text, size_t len)
{
	return auth_knows(((struct front_request *)arg)->config->host_auth, text, len);
}

static bool is_a_boxs(void *arg, const char *text, size_t len)
{
	return boxes_have_token(((struct front_request *)arg)->config->boxes, text, len);
}

/* Who holds a token, but sends it to the wrong place, is told what it is; never whose. */
static void explain(struct front_request *r, const struct auth_request *by, struct err *err)
{
	if (auth_any(by, is_hosts, r))
		err_set(err, ERR_UNAUTHORIZED,
			"this is the host's token, which opens no sandbox: send the sandbox's own, from "
			"GET /v1/sandboxes/%s or 'aio inspect %s'",
			r->address.id, r->address.id);
	else if (auth_any(by, is_a_boxs, r))
		err_set(err, ERR_UNAUTHORIZED, "this is the token of another sandbox");
}

/* The host's own server says what is wrong with a key; but it knows no token of a box. */
static int check_host(struct front_request *r, struct err *err)
{
	const struct auth_request by = { .authorization = http_header(r->head, "authorization"),
					 .api_key_header = http_header(r->head, WIRE_KEY),
					 .query = r->query };
	if (auth_check(r->config->host_auth, &by, NULL) == 0 || !auth_any(&by, is_a_boxs, r))
		return 0;
	return err_set(err, ERR_UNAUTHORIZED, "this is the token of a sandbox. %s",
		       r->config->host_hint);
}

/* In the same words and bytes whether there is such a box or not. */
static int refuse_caller(const struct front_request *r, struct err *err)
{
	if (r->box)
		note_refusal(r);
	if (head_is_visit(r->head) && !r->link->relay.head_only && ask_key(r))
		return -1;
	if (!r->address.named)
		return -1;
	struct err why = *err;
	return err_set(err, why.code, "%.300s (or there is no sandbox '%s')", why.msg,
		       r->address.id);
}

/* Whether a program of the box answers, and sees the address in a page of its own. */
static bool is_guest(const struct front_request *r)
{
	return r->place == TO_BOX &&
	       (r->address.port || route_flagged(api_groups, GUEST, r->own_path));
}

/* Whether what answers is open to those who may only look, and keeps them to that. */
static bool is_for_viewers(const struct front_request *r)
{
	return (r->place == TO_BOX || r->place == TO_PAGE) && !r->address.port &&
	       route_flagged(api_groups, VIEW, r->own_path);
}

/* By the query alone, which nothing else of the request has let in. */
static int check_query(struct front_request *r, const struct auth *auth, struct auth_request *by,
		       int cookie, struct err *err)
{
	by->query = r->query;
	int scope = auth_check(auth, by, err);
	r->by_query = scope >= 0;
	r->view = scope == AUTH_VIEW;
	by->guest = !r->by_query && is_guest(r);
	r->by_guest = by->guest && auth_check(auth, by, NULL) == AUTH_ALL;
	if (r->by_query || r->by_guest)
		return 0;
	if (err->code == ERR_FORBIDDEN)
		return -1;
	if (cookie == AUTH_VIEW) {
		r->view = true;
		return by->view ? 0 : auth_only_views(err);
	}
	explain(r, by, err);
	return refuse_caller(r, err);
}

/* Nobody needs a credential: a link that is for looking is that there, too. */
static int check_open(struct front_request *r, const struct auth *auth, struct auth_request *by,
		      struct err *err)
{
	by->query = r->query;
	int scope = auth_check(auth, by, err);
	r->view = scope == AUTH_VIEW;
	return scope < 0 && !is_open(r) ? -1 : 0;
}

static int check_credentials(struct front_request *r, struct err *err)
{
	struct auth_request by = { .authorization = http_header(r->head, "authorization"),
				   .api_key_header = http_header(r->head, WIRE_KEY),
				   .no_ticket = is_ticket(r, NO_TICKET),
				   .view = is_for_viewers(r) };
	const struct auth *auth = r->box ? r->box->auth : r->config->nobody;
	if (!auth_enabled(auth))
		return check_open(r, auth, &by, err);
	int cookie = r->had_cookie = cookie_scope(r);
	if (cookie == AUTH_ALL && !by.no_ticket && query_scope(r, auth) != AUTH_VIEW)
		return 0;
	if ((by.authorization || by.api_key_header) && auth_check(auth, &by, NULL) == 0)
		return 0;
	if (is_open(r)) {
		r->link->anonymous = true;
		return 0;
	}
	if (is_preflight(r))
		return answer_preflight(r, err);
	return check_query(r, auth, &by, cookie, err);
}

/* A page whose address carried a credential loads more, whose addresses do not. */
static void grant_cookie(struct front_request *r, const struct box *box, int scope)
{
	char name[COOKIE_NAME_ROOM];
	free(r->link->cookie);
	r->link->cookie = NULL;
	if (scope < 0 || !takes_cookie(r) || !guard_is_safe(r->head))
		return;
	/* Who has one for all keeps it, whatever link they look at. */
	if (scope == AUTH_VIEW && r->had_cookie == AUTH_ALL)
		return;
	cookie_name(name, r->host, !r->address.named);
	r->link->cookie = cookie_new(box->auth, (enum auth_scope)scope, name);
}

/* A page can read the address that it was opened by, and so can what it asks, in Referer: a credential
 * there becomes a cookie, or where none can be a ticket, which soon expires. -1: so it does. */
static int clean_address(struct front_request *r, struct err *err)
{
	const char *target = r->path - r->address.prefix;
	auto_buf struct buf to = BUF(r->config->max_head + 512);
	/* At the name of a port it becomes a cookie, too, which the browser sends there and nowhere else. */
	bool stays = r->by_guest && !(r->address.own_origin && r->address.port);
	if (!r->box || (r->place != TO_BOX && r->place != TO_PAGE) || !r->query || !r->host ||
	    stays || !head_is_visit(r->head))
		return 0;
	const struct head_request hidden = { .strip_query = auth_enabled(r->box->auth),
					     .is_secret = is_secret,
					     .arg = r };
	buf_printf(&to, "//%s%s%.*s", r->host, r->outer, (int)(r->path + r->path_len - target),
		   target);
	if (!takes_cookie(r) || head_is_foreign_frame(r->head))
		return head_trade(&to, r->query, r->box->auth, is_guest(r))
			       ? redirect(r, 303, to.data, NULL, err)
			       : 0;
	if (!head_query(&to, r->query, &hidden))
		return 0;
	int scope = r->by_guest ? (int)AUTH_GUEST : query_scope(r, r->box->auth);
	grant_cookie(r, r->box, auth_enabled(r->box->auth) ? scope : -1);
	return redirect(r, 303, to.data, r->link->cookie, err);
}

/* ---- streams ---- */

void front_ran(struct link *link)
{
	const struct gateway_config *config = link->loop->config;
	char command[EXEC_TAP_ROOM] = "";
	auto_free char *path = TAKE(link->runs);
	if (link->tap.len)
		exec_tap_read(link->tap.data, link->tap.len, link->relay.upgrade, command);
	const struct history_exec exec = { path, *command ? command : NULL };
	config->event(config->arg, link->target, HISTORY_EXEC, &exec);
	buf_done(&link->tap);
}

void front_done(struct link *link)
{
	if (link->runs)
		front_ran(link);
	if (link->counted) {
		link->counted = false;
		link->target->active--;
		if (!link->anonymous)
			link->target->used_ms = link->loop->now_ms;
	}
	free(link->prefix);
	free(link->cookie);
	link->prefix = link->cookie = NULL;
}

void front_leave(struct link *link)
{
	front_done(link);
	if (link->box.fd >= 0 && link->target)
		link->target->streams--;
	link_close(link, &link->box);
	if (link->target)
		boxes_put(link->loop->config->boxes, link->target);
	link->target = NULL;
	link->to_host = false;
}

static int open_stream(struct front_request *r, struct err *err)
{
	bool to_box = r->place == TO_BOX;
	struct link *link = r->link;
	if (to_box && r->box->streams >= r->config->max_streams)
		return err_set(err, ERR_UNAVAILABLE, "sandbox '%s' has too many connections",
			       r->box->id);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (to_box)
		address = gateway_address(r->config->state_dir, r->box->id);
	else
		snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
			 r->config->state_dir, r->config->host_socket);
	auto_close int fd = to_box ? ward_dial(&address, r->box->id)
				   : dial_at_once(&address, NULL, NULL);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return err_set(err, ERR_UNAVAILABLE, "no socket for a stream");
	if (fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "the server of sandbox '%s' %s", r->address.id,
			       errno == EAGAIN ? "accepts connections too slowly" : "does not run");
	end_init(&link->box, TAKE_FD(fd));
	link->fresh = true;
	if (to_box) {
		link->target = r->box; /* with its reference */
		link->target->streams++;
		r->box = NULL;
	}
	link->to_host = !to_box;
	return 0;
}

/* A stream is used again only for the same box, and is never another client's. */
static int reach(struct front_request *r, struct err *err)
{
	struct link *link = r->link;
	if (link->box.fd >= 0 && !link->box.eof && !link->box.broken &&
	    (r->place == TO_BOX ? link->target == r->box : link->to_host)) {
		link->fresh = false;
		return 0;
	}
	front_leave(link);
	return open_stream(r, err);
}

/* ---- the whole ---- */

/* Whether its paths are below /s/ID for the client. */
static bool is_below(const struct front_request *r)
{
	return r->place == TO_BOX && r->address.named && !r->address.own_origin &&
	       (r->address.prefix || !r->address.port);
}

/* A client with the key in its URL cannot send headers: the URLs in the answer have a ticket. A ticket
 * in the query does not get another one: none renews itself. */
static const char *url_ticket(const struct front_request *r, char *to, size_t room)
{
	const struct box *box = r->link->target;
	const struct auth_request by = { .query = r->query, .no_ticket = true };
	int ttl;
	if (r->place != TO_BOX || !r->by_query || r->view || r->address.port ||
	    !route_flagged(api_groups, URLS, r->own_path) ||
	    auth_check(box->auth, &by, NULL) != AUTH_ALL ||
	    auth_ticket(box->auth, AUTH_ALL, to, room, &ttl) < 0)
		return NULL;
	return to;
}

static void write_head(struct front_request *r)
{
	struct link *link = r->link;
	const struct box *box = r->box ? r->box : link->target;
	bool looks_itself = r->place == TO_HOST || is_ticket(r, PUBLIC);
	char below[TARGET_OUTER_MAX + BOX_ID_MAX + 4], port[8] = "", ticket[AUTH_TICKET_ROOM];
	snprintf(below, sizeof below, "%s%s%s", r->outer, is_below(r) ? "/s/" : "",
		 is_below(r) ? r->address.id : "");
	if (r->address.port)
		snprintf(port, sizeof port, "%d", r->address.port);
	const struct pair own[] = {
		{ "X-Forwarded-Prefix", below },
		{ WIRE_KEY, r->place == TO_BOX ? box->secret
			    : looks_itself     ? NULL
					       : r->config->host_token },
		{ WIRE_BOX, r->place == TO_TICKETS ? r->address.id : NULL },
		{ WIRE_PORT, port },
		{ WIRE_VIEW, r->place == TO_BOX && r->view ? "1" : NULL },
		{ WIRE_TICKET, url_ticket(r, ticket, sizeof ticket) },
	};
	r->tokens = 0;
	struct head_request how = {
		.strip_query = r->place != TO_HOST && box && auth_enabled(box->auth),
		.is_secret = r->place == TO_BOX ? is_secret : NULL,
		.arg = r,
		.peer = link->peer,
		.prefix = r->address.prefix,
		.own = own,
		.own_count = COUNT(own),
		.keep_credentials = looks_itself,
		/* An application behind a preview may have tokens of its own. */
		.keep_authorization = r->place == TO_BOX && r->address.port &&
				      r->address.own_origin,
		.upgrade = link->relay.upgrade,
	};
	head_request(&link->box.out, r->head, &how);
	link->relay.head.plain = !r->address.own_origin;
	link->relay.head.varies = !r->address.own_origin || !r->address.named;
	link->relay.head.trusted = r->place != TO_BOX;
	if (r->address.prefix || *r->outer)
		link->prefix =
			xasprintf("%s%.*s", r->outer, (int)r->address.prefix, r->head->target);
	link->relay.head.prefix = link->prefix;
	link->relay.head.cookie = link->cookie;
}

/* "/v1/mcp/{server_name}/tools/{tool_name}" is in the history as "/v1/mcp/…/tools/…", with stars, once
 * its body is known. */
static void begin_exec(struct link *link, const char *pattern)
{
	char path[128];
	size_t len = 0;
	for (const char *at = pattern; *at && len < sizeof path - 1; at++) {
		path[len++] = *at == '{' ? '*' : *at;
		at += *at == '{' ? strcspn(at, "}") : 0;
	}
	path[len] = 0;
	link->runs = xstrdup(path);
	link->tap = BUF(EXEC_TAP_MAX);
}

static void account(struct front_request *r)
{
	struct box *box = r->link->target;
	if (r->place != TO_BOX)
		return;
	box->requests++;
	if (!r->link->anonymous)
		box->used_ms = r->link->loop->now_ms;
	r->link->counted = true; /* what check_state() counted is the link's now */
	r->entered = NULL;
	if ((strcmp(r->head->method, "POST") != 0 && !r->head->upgrade) || r->address.port)
		return;
	const struct route *route = route_flagged(api_groups, RUNS, r->own_path);
	if (route)
		begin_exec(r->link, route->path);
}

static int check_state(struct front_request *r, struct err *err)
{
	struct boxes *boxes = r->config->boxes;
	pthread_mutex_lock(&boxes->lock);
	enum box_state state = r->box->state;
	bool comes_back = r->box->auto_resume && !r->link->anonymous;
	if (state == BOX_RUNNING) { /* in one step: who pauses an idle box sees us, or we see it */
		r->entered = r->box;
		r->box->active++;
	}
	pthread_mutex_unlock(&boxes->lock);
	if (state == BOX_RUNNING)
		return 0;
	if (state == BOX_DELETED)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%s'", r->address.id);
	if (state != BOX_CREATING && !comes_back)
		return err_set(err, ERR_CONFLICT, "sandbox '%s' is %s: resume it first",
			       r->address.id, box_state_names[state]);
	if (state != BOX_CREATING && !r->link->woken) {
		r->link->woken = true;
		r->config->wake(r->config->arg, r->box);
	}
	return 1;
}

static int decide(struct front_request *r, struct err *err)
{
	if (address_find(r->head, &r->config->names, &r->address, err) < 0)
		return -1;
	struct target target;
	target_outer(r->head, r->outer);
	if (target_split(r->head, &target, err) < 0)
		return -1;
	r->path = target.path + r->address.prefix;
	r->path_len = target.path_len - r->address.prefix;
	r->query = target.query;
	r->own_path = xstrndup(r->path, r->path_len);
	r->place = places_find(r->own_path, &r->address);
	if (r->place != TO_HOST) {
		r->box = boxes_get(r->config->boxes, r->address.id);
		if (!r->box && !strcmp(r->address.id, "default"))
			return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%s'",
				       r->address.id);
	}
	if (check_page(r, err) < 0 || send_home(r, err) < 0 ||
	    (r->place == TO_HOST ? check_host : check_credentials)(r, err) < 0 ||
	    clean_address(r, err) < 0)
		return -1;
	int state = r->place == TO_BOX ? check_state(r, err) : 0;
	if (state)
		return state;
	if (reach(r, err) < 0)
		return -1;
	if (r->link->target && r->by_query && r->address.own_origin)
		grant_cookie(r, r->link->target, r->view ? AUTH_VIEW : AUTH_ALL);
	write_head(r);
	account(r);
	return 0;
}

int front_decide(struct link *link, struct err *err)
{
	struct front_request r = { .link = link,
				   .had_cookie = -1,
				   .config = link->loop->config,
				   .head = &link->loop->http.head,
				   .host = http_header(&link->loop->http.head, "host"),
				   .origin = http_header(&link->loop->http.head, "origin") };
	link->anonymous = false;
	int result = decide(&r, err);
	if (r.entered)
		r.entered->active--;
	boxes_put(r.config->boxes, r.box);
	free(r.own_path);
	return result;
}
