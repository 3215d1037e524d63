#include "outbound/forward.h"

#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "net/client.h"
#include "net/conn.h"
#include "net/dial.h"
#include "net/server.h"
#include "outbound/outbound.h"
#include "outbound/passage.h"
#include "outbound/upstream_proxy.h"

enum {
	CONNECT_MS = 30000, /* until there is a stream to the server, through another proxy too */
	HEAD_MAX = 65536,   /* of another proxy's answer to a CONNECT */
};

/* One request. */
struct forward {
	struct conn *conn;
	struct url_parts url;
	struct rule_url asked;
	struct outbound_way way;
	struct client client; /* of a tunnel through another proxy: what that has sent */
	char *authorization;  /* for another proxy; NULL: none */
	bool connect;
};

/* ---- loops ---- */

/* How this proxy is called in Via, which other proxies pass on. */
static const char *own_name(void)
{
	static char name[32];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t number = 0;
	pthread_mutex_lock(&lock);
	if (!*name) {
		(void)!getrandom(&number, sizeof number, 0);
		snprintf(name, sizeof name, "1.1 aio-%012llx",
			 (unsigned long long)(number & 0xffffffffffff));
	}
	pthread_mutex_unlock(&lock);
	return name;
}

static bool has_been_here(const struct http_head *head)
{
	for (size_t i = 0; i < head->count; i++)
		if (!strcasecmp(head->headers[i].name, "via") &&
		    strstr(head->headers[i].value, own_name()))
			return true;
	return false;
}

/* However the address was written. */
static bool is_own_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} at = { 0 };
	socklen_t len = sizeof at;
	if (getpeername(fd, &at.any, &len) < 0)
		return false;
	in_port_t port = at.any.sa_family == AF_INET6 ? at.in6.sin6_port : at.in.sin_port;
	bool loopback = at.any.sa_family == AF_INET6 ? IN6_IS_ADDR_V4MAPPED(&at.in6.sin6_addr) &&
							       at.in6.sin6_addr.s6_addr[12] == 127
						     : ntohl(at.in.sin_addr.s_addr) >> 24 == 127;
	return loopback && ntohs(port) == outbound_port();
}

/* ---- connecting ---- */

static void refuse(struct forward *forward, int status, const char *why)
{
	(void)conn_fail(forward->conn, status, why, false);
}

/* As the sandbox user: other servers of this machine may take root for more than that. -1: answered. */
static int connect_to(struct forward *forward, const struct dial_wait *wait)
{
	struct conn *conn = forward->conn;
	struct url_parts to = { .port = forward->way.port };
	struct err err;
	uid_t user = conn->server->inside.user;
	snprintf(to.host, sizeof to.host, "%s", forward->way.host);
	snprintf(to.authority, sizeof to.authority, strchr(to.host, ':') ? "[%s]:%d" : "%s:%d",
		 to.host, to.port);
	int before = user ? setfsuid(user) : 0;
	auto_close int fd = dial(&to, wait, &err);
	if (user)
		setfsuid((uid_t)before);
	if (fd < 0) {
		const char *proxy = forward->way.kind == WAY_UPSTREAM ? "the upstream proxy: " : "";
		refuse(forward, err.code == ERR_SLOW ? 504 : 502,
		       arena_printf(&conn->arena, "%s%s", proxy, err.msg));
		return -1;
	}
	if (is_own_port(fd)) {
		refuse(forward, 508, "the request leads back to this proxy");
		return -1;
	}
	return TAKE_FD(fd);
}

/* What another proxy is shown; false: there should be something, and is not, which was answered. */
static bool authorize(struct forward *forward, bool again)
{
	struct err err = { 0 };
	auto_free char *refused = TAKE(forward->authorization);
	if (forward->way.kind != WAY_UPSTREAM)
		return true;
	forward->authorization = upstream_proxy_authorization(forward->way.upstream,
							      again ? refused ? refused : "" : NULL,
							      &err);
	if (err.code)
		refuse(forward, 502, err.msg);
	return !err.code;
}

/* ---- http:// ---- */

/* False: another proxy has refused its credentials, and the request can be sent again. */
static bool relay_request(struct forward *forward, const struct dial_wait *wait)
{
	struct conn *conn = forward->conn;
	const struct http *http = &conn->http;
	bool by_proxy = forward->way.kind == WAY_UPSTREAM;
	bool repeats = http->body_done && http->used == http->len;
	int fd = connect_to(forward, wait);
	if (fd < 0)
		return true;
	const struct passage passage = {
		.conn = conn,
		.fd = fd,
		.who = arena_printf(&conn->arena, "%s:%d", forward->way.host, forward->way.port),
		.by_proxy = by_proxy,
	};
	const char *path = forward->way.path ? forward->way.path : forward->url.target;
	const struct head_forward head = {
		.target = by_proxy ? arena_printf(&conn->arena, "http://%s%s",
						  forward->url.authority, forward->url.target)
				   : path,
		.host = forward->url.authority,
		.authorization = forward->authorization,
		.via = by_proxy ? own_name() : NULL,
	};
	if (passage_request(&passage, &head))
		return true;
	if (repeats)
		return false;
	conn->close_after = true; /* its body is gone */
	if (authorize(forward, true))
		refuse(forward, 502,
		       "the upstream proxy wants new credentials: send the request again");
	return true;
}

static void serve_request(struct forward *forward, const struct dial_wait *wait)
{
	if (authorize(forward, false) && !relay_request(forward, wait) &&
	    authorize(forward, true) && !relay_request(forward, wait))
		refuse(forward, 502, "the upstream proxy refuses the credentials");
}

/* ---- CONNECT ---- */

struct tunnel {
	LIST_ENTRY(tunnel) link;
	const struct forward *forward;
	int stale_fd;
};

static struct {
	pthread_mutex_t lock;
	LIST_HEAD(, tunnel) list;
} tunnels = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock. */
static void look_at(const struct tunnel *tunnel)
{
	if (!outbound_is_current(&tunnel->forward->asked, &tunnel->forward->way))
		(void)eventfd_write(tunnel->stale_fd, 1);
}

void forward_changed(void)
{
	struct tunnel *tunnel;
	pthread_mutex_lock(&tunnels.lock);
	LIST_FOREACH(tunnel, &tunnels.list, link)
	look_at(tunnel);
	pthread_mutex_unlock(&tunnels.lock);
}

static void tunnel_join(struct tunnel *tunnel)
{
	pthread_mutex_lock(&tunnels.lock);
	LIST_INSERT_HEAD(&tunnels.list, tunnel, link);
	look_at(tunnel); /* it may have changed since it was asked */
	pthread_mutex_unlock(&tunnels.lock);
}

static void tunnel_leave(struct tunnel *tunnel)
{
	pthread_mutex_lock(&tunnels.lock);
	LIST_REMOVE(tunnel, link);
	pthread_mutex_unlock(&tunnels.lock);
	own_close(&tunnel->stale_fd);
}

/* Has another proxy connect further. A descriptor; -1: answered; -2: it refuses the credentials. */
static int connect_through(struct forward *forward, const struct dial_wait *wait)
{
	struct client *client = &forward->client;
	struct err err;
	int fd = connect_to(forward, wait);
	if (fd < 0 || forward->way.kind != WAY_UPSTREAM)
		return fd;
	*client = (struct client){ .fd = fd,
				   .wait = wait,
				   .limits = { HEAD_MAX, 0, 0, INT_MIN },
				   .proxy_authorization = forward->authorization,
				   .via = own_name() };
	int status = client_tunnel(client, forward->url.host, forward->url.port, &err);
	client->proxy_authorization = NULL; /* ours */
	if (status / 100 == 2)
		return fd;
	own_close(&fd);
	if (status == 407)
		return -2;
	refuse(forward, err.code == ERR_SLOW && status < 0 ? 504 : 502,
	       status < 0 ? arena_printf(&forward->conn->arena, "the upstream proxy: %s", err.msg)
			  : arena_printf(&forward->conn->arena,
					 "the upstream proxy answered %d to CONNECT %s:%d", status,
					 forward->url.host, forward->url.port));
	return -1;
}

static void pass_bytes(struct forward *forward, int fd)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	struct conn *conn = forward->conn;
	const struct http *early = &forward->client.http;
	struct tunnel tunnel = { .forward = forward,
				 .stale_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	struct err err;
	if (conn_send_raw(conn, established, sizeof established - 1, &err) < 0) {
		conn->broken = true;
		own_close(&fd);
		own_close(&tunnel.stale_fd);
		return;
	}
	const struct passage passage = { .conn = conn, .fd = fd, .who = forward->way.host };
	const struct text sent = { early->data ? early->data + early->used : "",
				   early->len - early->used };
	tunnel_join(&tunnel);
	passage_tunnel(&passage, sent, tunnel.stale_fd);
	tunnel_leave(&tunnel);
}

static void serve_tunnel(struct forward *forward, const struct dial_wait *wait)
{
	int fd = authorize(forward, false) ? connect_through(forward, wait) : -1;
	if (fd == -2) {
		http_done(&forward->client.http);
		fd = authorize(forward, true) ? connect_through(forward, wait) : -1;
	}
	if (fd == -2)
		refuse(forward, 502, "the upstream proxy refuses the credentials");
	if (fd >= 0)
		pass_bytes(forward, fd);
	http_done(&forward->client.http);
}

/* ---- requests ---- */

/* "host:port" of a CONNECT. */
static int parse_authority(struct forward *forward, const char *target, struct err *err)
{
	struct url_parts *url = &forward->url;
	if (url_host_split(target, url->host, sizeof url->host, &url->port) < 0 || !url->port)
		return err_set(err, ERR_BAD_REQUEST, "invalid CONNECT: expected host:port");
	forward->asked = (struct rule_url){ url->port == 443  ? "https"
					    : url->port == 80 ? "http"
							      : NULL,
					    url->host, url->port, NULL };
	return 0;
}

static int parse_url(struct forward *forward, const char *target, struct err *err)
{
	struct url_parts *url = &forward->url;
	if (*target == '/' || !strcmp(target, "*"))
		return err_set(err, ERR_BAD_REQUEST,
			       "this is a forward proxy: a request names a whole URL, "
			       "http://host/path, or is a CONNECT");
	if (url_split(target, url, err) < 0)
		return -1;
	if (url->secure)
		return err_set(err, ERR_BAD_REQUEST,
			       "a forward proxy does not see https: use CONNECT %s:%d", url->host,
			       url->port);
	forward->asked = (struct rule_url){ "http", url->host, url->port, url->target };
	return 0;
}

static int parse(struct forward *forward, struct err *err)
{
	const struct http_head *head = &forward->conn->http.head;
	forward->connect = !strcmp(head->method, "CONNECT");
	if (forward->connect && head->length)
		return err_set(err, ERR_BAD_REQUEST, "a CONNECT has no body");
	return forward->connect ? parse_authority(forward, head->target, err)
				: parse_url(forward, head->target, err);
}

static void serve(struct forward *forward)
{
	struct conn *conn = forward->conn;
	const struct dial_wait wait = { .all = { clock_ms() + CONNECT_MS, conn->fd,
						 server_stop_fd(conn->server) },
					.connect_ms = CONNECT_MS };
	struct err err;
	if (parse(forward, &err) < 0) {
		conn->close_after = true;
		refuse(forward, 400, err.msg);
		return;
	}
	if (has_been_here(&conn->http.head)) {
		refuse(forward, 508, "the request has passed this proxy before");
		return;
	}
	outbound_find(&forward->asked, &conn->arena, &forward->way);
	(forward->connect ? serve_tunnel : serve_request)(forward, &wait);
}

/* Neither the path, which may hold secrets, nor a header. */
static void log_proxied(const struct forward *forward, int64_t us)
{
	static const char *const ways[] = { "direct", "mapping", "upstream" };
	const struct conn *conn = forward->conn;
	struct log_fact facts[] = {
		{ "method", conn->http.head.method, 0 }, { "host", forward->url.host, 0 },
		{ "port", NULL, forward->url.port },     { "way", ways[forward->way.kind], 0 },
		{ "status", NULL, conn->status },        { "ms", NULL, (double)us / 1000 },
	};
	log_event(LOG_INFO, "proxied", facts, COUNT(facts));
}

void forward_serve(struct conn *conn)
{
	struct forward *forward = xcalloc(1, sizeof *forward);
	int64_t start = clock_us();
	forward->conn = conn;
	conn->head_only = !strcmp(conn->http.head.method, "HEAD");
	serve(forward);
	log_proxied(forward, clock_us() - start);
	free(forward->authorization);
	free(forward);
}
