#include "host/link.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "host/boxes.h"
#include "net/head.h"

enum {
	HEAD_READ = 16384,
	INTERIM_MAX = 16,
	LINGER_MS = 1000,
	PARK_MS = 60000,
	STREAM_IDLE_MS = 60000,
	TUNNEL_SEND_MS = 24 * 3600000, /* one may look at a page of output for long */
};

struct link *link_new(struct loop *loop, int fd, const char *peer)
{
	struct link *link = xcalloc(1, sizeof *link);
	link->loop = loop;
	end_init(&link->client, fd);
	end_init(&link->box, -1);
	snprintf(link->peer, sizeof link->peer, "%s", peer);
	link->since_ms = link->moved_ms = loop->now_ms;
	link->next = loop->links;
	if (link->next)
		link->next->previous = link;
	loop->links = link;
	loop->count++;
	return link;
}

void link_close(struct link *link, struct end *end)
{
	if (end->watched)
		epoll_ctl(link->loop->epoll_fd, EPOLL_CTL_DEL, end->fd, NULL);
	end_close(end);
}

void link_free(struct link *link)
{
	struct loop *loop = link->loop;
	front_done(link);
	front_leave(link);
	link_close(link, &link->client);
	if (link->previous)
		link->previous->next = link->next;
	else
		loop->links = link->next;
	if (link->next)
		link->next->previous = link->previous;
	loop->count--;
	free(link);
}

static void set_phase(struct link *link, enum phase phase)
{
	link->phase = phase;
	link->since_ms = link->moved_ms = link->loop->now_ms;
}

/* The connection ends once what is to be sent is sent. */
static void finish_client(struct link *link)
{
	front_done(link);
	front_leave(link);
	set_phase(link, LINGERING);
}

static void refuse(struct link *link, int status, const char *detail, bool close)
{
	auto_buf struct buf out = BUF(16384);
	head_error(&out, status, detail, close, link->head_only);
	end_put(&link->client, out.data, out.len);
	front_done(link);
	link->woken = false;
	if (close)
		finish_client(link);
	else
		set_phase(link, AT_HEAD); /* it may have waited for its box */
}

/* The box has said something that it may not, or nothing. */
static bool blame(struct link *link, const char *what)
{
	log_debug("box %s: %s", link->target ? link->target->id : "(host)", what);
	if (link->answered) {
		set_phase(link, DEAD); /* an end in good order would be a lie */
		return true;
	}
	char text[256];
	snprintf(text, sizeof text, "the sandbox's server %s", what);
	refuse(link, 502, text, true);
	return true;
}

/* ---- requests ---- */

bool link_closes(const struct link *link, const struct http_head *head)
{
	return !link->keep_alive || head->length != 0;
}

static bool refuse_request(struct link *link, const struct http_head *head, const struct err *err)
{
	bool close = !head || link_closes(link, head) || err->code == ERR_BAD_REQUEST;
	if (head)
		end_take(&link->client, head->size);
	auto_free char *answer = link->answer;
	link->answer = NULL;
	if (!answer) {
		refuse(link, err_status(err->code), err->msg, close);
		return true;
	}
	end_put(&link->client, answer, strlen(answer));
	front_done(link);
	if (close)
		finish_client(link);
	else
		set_phase(link, AT_HEAD);
	return true;
}

static void begin_relay(struct link *link, const struct http_head *head)
{
	struct http *http = &link->loop->http;
	flow_begin(&link->up,
		   head->chunked      ? BODY_CHUNKED
		   : head->length > 0 ? BODY_LENGTH
				      : BODY_NONE,
		   head->length, &http->parser);
	flow_begin(&link->down, BODY_NONE, 0, NULL);
	link->up.splice = true;
	link->answered = link->tunnel = link->last = false;
	link->interim = 0;
	link->head_size = head->size;
	if (!link->up.done || link->fresh) { /* it cannot be asked again, or need not */
		end_take(&link->client, head->size);
		link->head_size = 0;
	}
	set_phase(link, RELAYING);
	link->box.corked = !link->up.done && end_held(&link->client) > 0;
	if (!link->box.corked)
		end_flush(&link->box);
}

/* What does the same when it is done twice. */
static bool is_repeatable(const struct http_head *head)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE" };
	bool found = false;
	for (size_t i = 0; i < COUNT(methods); i++)
		found |= !strcmp(head->method, methods[i]);
	return found && !head->upgrade;
}

static bool begin_request(struct link *link)
{
	struct loop *loop = link->loop;
	const struct http_head *head = &loop->http.head;
	struct err err = { 0 };
	link->keep_alive = head->keep_alive && head->minor > 0;
	link->http10 = head->minor == 0;
	link->head_only = !strcmp(head->method, "HEAD");
	link->upgrade = head->upgrade && head->length == 0 && head->minor > 0;
	link->repeatable = is_repeatable(head);
	int result = front_decide(link, &err);
	if (result < 0)
		return refuse_request(link, head, &err);
	if (result > 0) {
		if (link->phase != PARKED)
			set_phase(link, PARKED);
		return false;
	}
	begin_relay(link, head);
	return true;
}

/* Reads into what is held. False when nothing came. */
static bool fill(struct link *link, struct end *end)
{
	char *piece = link->loop->piece;
	if (!end->readable || end->eof)
		return false;
	ssize_t n = recv(end->fd, piece, HEAD_READ, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		end->readable = false;
		return false;
	}
	if (n <= 0) {
		end->eof = true;
		end->reset = n < 0 && errno == ECONNRESET;
		return true;
	}
	end->readable = n == HEAD_READ;
	link->moved_ms = link->loop->now_ms;
	return buf_add(&end->in, piece, (size_t)n) == 0;
}

/* Looks at a head only when it may be whole or has doubled since: one that drips in is not parsed
 * once per byte, and garbage is seen at once. 1 when it is whole, with loop->http filled. */
static int parse_head(struct link *link, struct end *end, enum http_side side, struct err *err)
{
	struct loop *loop = link->loop;
	const char *data = end->in.data + end->in_at;
	size_t held = end_held(end);
	if (!held)
		return 0;
	if (held < end->looked * 2 && !memmem(data, held, "\r\n\r\n", 4))
		return 0;
	end->looked = held;
	http_done(&loop->http);
	http_init(&loop->http, -1, side, &loop->limits);
	return http_feed(&loop->http, data, held, err);
}

static bool read_request(struct link *link)
{
	struct err err;
	bool first = !end_held(&link->client);
	int got = parse_head(link, &link->client, HTTP_REQUESTS, &err);
	if (got > 0)
		return begin_request(link);
	if (got < 0) {
		link->keep_alive = link->head_only = false;
		return refuse_request(link, NULL, &err);
	}
	if (!fill(link, &link->client))
		return false;
	if (link->client.eof)
		set_phase(link, DEAD);
	else if (first)
		link->since_ms = link->loop->now_ms;
	return true;
}

/* ---- answers ---- */

/* What the answer's first line says, as far as it is harmless. */
static void reason_of(const struct link *link, char *to, size_t room)
{
	const char *at = link->box.in.data + link->box.in_at;
	size_t n = 0;
	for (at += 12; n + 1 < room && *at >= ' ' && *at < 127; at++)
		if (n || *at != ' ')
			to[n++] = *at;
	to[n] = 0;
}

static void put_answer_head(struct link *link, const struct http_head *head, enum body_kind kind)
{
	char reason[64];
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	reason_of(link, reason, sizeof reason);
	struct head_response how = {
		.plain = link->plain,
		.trusted = link->trusted,
		.prefix = link->prefix,
		.prefix_len = link->prefix ? strlen(link->prefix) : 0,
		.cookie = head->status >= 200 ? link->cookie : NULL,
		.kind = link->head_only ? BODY_NONE : kind,
		.close = !link->keep_alive,
		.upgrade = head->status == 101,
		.length_known = http_header(head, "content-length") &&
				(kind == BODY_LENGTH || link->head_only),
	};
	head_response(&out, head, reason, &how);
	if (end_pending(&link->client) || head->status < 200 || kind == BODY_NONE ||
	    !end_held(&link->box)) {
		end_put(&link->client, out.data, out.len);
		return;
	}
	buf_add(&link->client.out, out.data, out.len);
	link->client.corked = true;
}

static bool begin_tunnel(struct link *link, const struct http_head *head)
{
	put_answer_head(link, head, BODY_NONE);
	end_take(&link->box, head->size);
	if (link->head_size)
		end_take(&link->client, link->head_size);
	link->head_size = 0;
	link->answered = link->tunnel = true;
	link->keep_alive = false;
	flow_begin(&link->up, BODY_TO_END, -1, NULL);
	flow_begin(&link->down, BODY_TO_END, -1, NULL);
	return true;
}

static bool interim_answer(struct link *link, const struct http_head *head)
{
	if (head->status == 101 && link->upgrade)
		return begin_tunnel(link, head);
	if (head->status == 101)
		return blame(link, "switched protocols though nobody had asked");
	if (++link->interim > INTERIM_MAX)
		return blame(link, "sends nothing but interim answers");
	if (!link->http10)
		put_answer_head(link, head, BODY_NONE);
	end_take(&link->box, head->size);
	return true;
}

static bool begin_answer(struct link *link)
{
	struct http *http = &link->loop->http;
	const struct http_head *head = &http->head;
	if (head->status < 100)
		return blame(link, "answered with a status that is none");
	if (head->status < 200)
		return interim_answer(link, head);
	enum body_kind kind = link->head_only || head->length == 0 ? BODY_NONE
			      : head->chunked                      ? BODY_CHUNKED
			      : head->length > 0                   ? BODY_LENGTH
								   : BODY_TO_END;
	enum body_kind shown = kind;
	if (kind == BODY_NONE && head->length == 0 && http_header(head, "content-length") &&
	    head->status != 204 && head->status != 304)
		shown = BODY_LENGTH; /* of nothing */
	if (kind == BODY_CHUNKED && link->http10)
		shown = BODY_TO_END;
	/* An answer without a length ends with its connection, whatever the box sends next. */
	if (shown == BODY_TO_END)
		link->keep_alive = false;
	put_answer_head(link, head, shown);
	flow_begin(&link->down, kind, head->length, &http->parser);
	link->down.splice = true;
	link->down.bare = kind == BODY_CHUNKED && link->http10;
	link->last = !head->keep_alive || kind == BODY_TO_END;
	end_take(&link->box, head->size);
	if (link->head_size)
		end_take(&link->client, link->head_size);
	link->head_size = 0;
	link->answered = true;
	return true;
}

/* The stream had been used before, and the box's server closed it without a word. Whether it had read
 * the request is known only if not: a Unix stream that is closed with bytes unread is reset. */
static bool ask_again(struct link *link)
{
	bool unread = link->box.reset || link->box.broken;
	if (!link->head_size || end_held(&link->box) || link->interim)
		return false;
	if (!link->repeatable && !unread)
		return false;
	link->head_size = 0;
	front_done(link);
	front_leave(link);
	set_phase(link, AT_HEAD);
	return true;
}

static bool read_answer(struct link *link)
{
	struct err err;
	if (end_pending(&link->client))
		return false;
	int got = parse_head(link, &link->box, HTTP_RESPONSES, &err);
	if (got > 0)
		return begin_answer(link);
	if (got < 0)
		return blame(link, "does not speak HTTP");
	if (link->box.eof)
		return ask_again(link) ? true
				       : blame(link, "closed the connection without an answer");
	return fill(link, &link->box);
}

/* ---- relaying ---- */

/* Also when its last bytes wait in a pipe: the next head must not overtake them. */
static bool answer_done(struct link *link)
{
	bool surplus = end_held(&link->box) > 0;
	bool whole = link->up.done && !link->client.eof;
	front_done(link);
	if (surplus) { /* more than was asked for: neither side of this can be trusted to be in step */
		log_debug("box %s: surplus bytes", link->target ? link->target->id : "(host)");
		finish_client(link);
		return true;
	}
	if (!link->keep_alive || !whole) {
		finish_client(link);
		return true;
	}
	if (link->last || link->box.eof || link->box.broken)
		front_leave(link);
	set_phase(link, AT_HEAD);
	link->woken = false;
	return true;
}

static void pass_half_close(struct end *from, const struct flow *flow, struct end *to, bool *told)
{
	if (flow->done && from->eof && !*told && !end_pending(to) && to->fd >= 0) {
		shutdown(to->fd, SHUT_WR);
		*told = true;
	}
}

static bool relay_tunnel(struct link *link)
{
	struct loop *loop = link->loop;
	int up = link->up.done ? 0 : flow_pump(&link->up, &link->client, &link->box, loop->piece);
	int down = link->down.done ? 0
				   : flow_pump(&link->down, &link->box, &link->client, loop->piece);
	if (up || down) {
		link->moved_ms = loop->now_ms;
		if (link->target)
			link->target->used_ms = loop->now_ms;
	}
	pass_half_close(&link->client, &link->up, &link->box, &link->told_box);
	pass_half_close(&link->box, &link->down, &link->client, &link->told_client);
	if (link->client.broken || link->box.broken ||
	    (link->up.done && link->down.done && !end_pending(&link->client)))
		set_phase(link, DEAD);
	return up > 0 || down > 0;
}

static bool relay(struct link *link)
{
	struct loop *loop = link->loop;
	if (link->tunnel)
		return relay_tunnel(link);
	int up = 0, down = 0;
	if (!link->up.done)
		up = flow_pump(&link->up, &link->client, &link->box, loop->piece);
	if (link->box.corked)
		end_flush(&link->box);
	if (up < 0) { /* cut short or malformed: the box must not take it for whole */
		set_phase(link, DEAD);
		return true;
	}
	if (up)
		link->moved_ms = loop->now_ms;
	if (!link->answered)
		return read_answer(link) || up;
	if (!link->down.done)
		down = flow_pump(&link->down, &link->box, &link->client, loop->piece);
	if (link->client.corked)
		end_flush(&link->client);
	if (down < 0 || link->client.broken) {
		set_phase(link, DEAD);
		return true;
	}
	if (down)
		link->moved_ms = loop->now_ms;
	return link->down.done ? answer_done(link) : up || down;
}

static bool linger(struct link *link)
{
	if (end_pending(&link->client) && !link->client.broken)
		return false;
	if (!link->told_client) {
		shutdown(link->client.fd, SHUT_WR);
		link->told_client = true;
	}
	ssize_t n = link->client.readable
			    ? recv(link->client.fd, link->loop->piece, FLOW_PIECE, MSG_DONTWAIT)
			    : -1;
	if (n > 0)
		return true;
	link->client.readable = false;
	if (n == 0 || link->client.broken || link->client.eof)
		set_phase(link, DEAD);
	return false;
}

static bool advance(struct link *link)
{
	if (!link->client.corked)
		end_flush(&link->client);
	if (link->box.fd >= 0 && !link->box.corked)
		end_flush(&link->box);
	switch (link->phase) {
	case AT_HEAD:
		return !end_pending(&link->client) && read_request(link);
	case PARKED: {
		struct err err;
		return parse_head(link, &link->client, HTTP_REQUESTS, &err) > 0 &&
		       begin_request(link);
	}
	case RELAYING:
		return relay(link);
	case LINGERING:
		return linger(link);
	default:
		return false;
	}
}

/* ---- events ---- */

/* Interest that is no longer wanted stays until it fires: most of it is wanted again at once. */
static void watch(struct loop *loop, struct link *link, struct end *end, uint32_t wanted,
		  uint32_t fired)
{
	if (end->fd < 0)
		return;
	if (fired & (EPOLLHUP | EPOLLERR) && !(wanted & EPOLLIN) && end->watched) {
		/* It would fire for ever: out, until its last bytes are wanted. */
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, end->fd, NULL);
		end->watched = 0;
		return;
	}
	uint32_t spurious = fired & ~end->wanted; /* it fired though nobody had use for it */
	end->wanted = wanted;
	if (!(wanted & ~end->watched) && !(spurious & end->watched & ~wanted))
		return;
	/* The lowest bit of the pointer says which end it is. */
	struct epoll_event event = { .events = wanted,
				     .data.u64 = (uintptr_t)link | (end == &link->box) };
	epoll_ctl(loop->epoll_fd, end->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, end->fd, &event);
	end->watched = wanted ? wanted : EPOLLERR;
}

static void watch_both(struct link *link, uint32_t client_fired, uint32_t box_fired)
{
	bool relaying = link->phase == RELAYING;
	uint32_t client = link->hung ? 0 : EPOLLRDHUP, box = 0;
	if (link->phase == AT_HEAD || link->phase == LINGERING ||
	    (relaying && !link->up.done && !end_pending(&link->box)))
		client |= EPOLLIN;
	if (end_pending(&link->client))
		client |= EPOLLOUT;
	if (!relaying || ((!link->answered || !link->down.done) && !end_pending(&link->client) &&
			  !link->box.eof))
		box |= EPOLLIN;
	if (end_pending(&link->box))
		box |= EPOLLOUT;
	watch(link->loop, link, &link->client, client, client_fired);
	watch(link->loop, link, &link->box, box, box_fired);
}

/* A stream that waits for the next request: its end is fine, bytes that nobody asked for are not. */
static void idle_stream(struct link *link)
{
	char byte;
	ssize_t n = recv(link->box.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && link->phase == AT_HEAD)
		finish_client(link);
	else
		front_leave(link);
}

static void client_gone(struct link *link, uint32_t fired)
{
	if (fired & (EPOLLHUP | EPOLLERR)) {
		set_phase(link, DEAD);
		return;
	}
	/* Half a close: the box hears of it as it would without us. */
	if (!(fired & EPOLLRDHUP))
		return;
	link->hung = true;
	if (link->phase != RELAYING || !link->up.done)
		return;
	char byte; /* more requests may be there, which are answered first */
	if (end_held(&link->client) == link->head_size && !end_pending(&link->box) &&
	    recv(link->client.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
		shutdown(link->box.fd, SHUT_WR);
		link->client.eof = true;
	}
}

void link_run(struct link *link, uint32_t client_fired, uint32_t box_fired)
{
	if (link->buried)
		return;
	client_gone(link, client_fired);
	link->client.readable |= (client_fired & EPOLLIN) != 0;
	if (box_fired && link->phase != RELAYING && link->box.fd >= 0)
		idle_stream(link);
	else if (box_fired)
		link->box.readable = true;
	/* Bounded, so that one busy link does not keep the others waiting: level-triggered events
	 * bring us back. */
	for (int turn = 0; turn < 64 && link->phase != DEAD && advance(link); turn++)
		;
	if (link->phase == DEAD) { /* freed after this batch of events, which may name it again */
		link->buried = true;
		link->next_dead = link->loop->dead;
		link->loop->dead = link;
	} else {
		watch_both(link, client_fired, box_fired);
	}
}

/* What was sent to an end, and it has not taken. */
static size_t untaken(const struct end *end)
{
	int queued = 0;
	if (end->fd < 0 || ioctl(end->fd, SIOCOUTQ, &queued) < 0)
		queued = 0;
	return end->out.len - end->out_at + end->piped + (size_t)queued;
}

/* Whoever takes some of what waits for it does not stand still, though the kernel asks for more only when
 * much of what it holds is gone. */
static void note_taken(struct link *link)
{
	size_t left = untaken(&link->client) + untaken(&link->box);
	if (left != link->untaken)
		link->moved_ms = link->loop->now_ms;
	link->untaken = left;
	link->since_ms = link->loop->now_ms; /* what comes next is waited for after that */
}

void link_expire(struct link *link)
{
	const struct gateway_config *config = link->loop->config;
	bool pending = end_pending(&link->client) || end_pending(&link->box);
	if (pending)
		note_taken(link);
	int64_t now = link->loop->now_ms, phase = now - link->since_ms,
		quiet = now - link->moved_ms;
	struct err err = { 0 };
	if (link->buried)
		return;
	if (pending && quiet > (link->tunnel ? TUNNEL_SEND_MS : config->send_ms)) {
		set_phase(link, DEAD);
	} else if (link->phase == AT_HEAD && end_held(&link->client) && phase > config->head_ms) {
		err_set(&err, ERR_SLOW, "the head took too long to arrive");
		link->keep_alive = link->head_only = false;
		refuse_request(link, NULL, &err);
	} else if (link->phase == AT_HEAD && !pending &&
		   (phase > config->idle_ms || link->loop->stopping)) {
		set_phase(link, DEAD);
	} else if (link->phase == AT_HEAD && link->box.fd >= 0 && phase > STREAM_IDLE_MS) {
		front_leave(link); /* before the box's server does, in the middle of a request */
	} else if (link->phase == PARKED && phase > PARK_MS) {
		refuse(link, 503, "the sandbox does not come back", true);
	} else if (link->phase == PARKED) {
		link->woken = false; /* it may have been paused again meanwhile: ask once more */
	} else if (link->phase == RELAYING && !link->tunnel && !link->up.done && !pending &&
		   quiet > config->body_ms && !link->answered) {
		refuse(link, 408, "the body took too long to arrive", true);
	} else if ((link->phase == LINGERING && !pending && phase > LINGER_MS) ||
		   (link->tunnel && link->down.done && !pending && quiet > LINGER_MS)) {
		set_phase(link, DEAD);
	} else {
		return;
	}
	link_run(link, 0, 0);
}
