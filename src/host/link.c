#include "host/link.h"
#include "host/exec_tap.h"

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
	link->relay.client = &link->client;
	link->relay.server = &link->box;
	link->relay.splice = true;
	link->since_ms = link->relay.moved_ms = loop->now_ms;
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
	link->since_ms = link->relay.moved_ms = link->loop->now_ms;
}

static struct relay_tools tools_of(const struct link *link)
{
	struct loop *loop = link->loop;
	return (struct relay_tools){ &loop->http, &loop->limits, loop->piece, loop->now_ms };
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
	head_error(&out, status, detail, close, link->relay.head_only);
	end_put(&link->client, out.data, out.len);
	front_done(link);
	link->woken = false;
	if (close)
		finish_client(link);
	else
		set_phase(link, AT_HEAD); /* it may have waited for its box */
}

/* The box has said something that it may not, or nothing. */
static void blame(struct link *link, const char *what)
{
	char text[256];
	log_debug("box %s: %s", link->target ? link->target->id : "(host)", what);
	snprintf(text, sizeof text, "the sandbox's server %s", what);
	refuse(link, 502, text, true);
}

/* ---- requests ---- */

bool link_closes(const struct link *link, const struct http_head *head)
{
	return !link->relay.keep_alive || head->length != 0;
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
	link->relay.head_size = head->size;
	if (head->length != 0 || link->fresh) { /* it cannot be asked again, or need not */
		end_take(&link->client, head->size);
		link->relay.head_size = 0;
	}
	set_phase(link, RELAYING);
	relay_begin(&link->relay, &link->loop->http, link->loop->now_ms);
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
	relay_init(&link->relay, head);
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

static bool read_request(struct link *link)
{
	struct err err;
	const struct relay_tools tools = tools_of(link);
	bool first = !end_held(&link->client);
	int got = relay_head(&link->client, true, &tools, &err);
	if (got > 0)
		return begin_request(link);
	if (got < 0) {
		link->relay.keep_alive = link->relay.head_only = false;
		return refuse_request(link, NULL, &err);
	}
	if (!end_fill(&link->client, tools.piece, HEAD_READ))
		return false;
	link->relay.moved_ms = tools.now_ms;
	if (link->client.eof)
		set_phase(link, DEAD);
	else if (first)
		link->since_ms = link->loop->now_ms;
	return true;
}

/* ---- answers ---- */

/* The stream had been used before, and the box's server closed it without a word. Whether it had read
 * the request is known only if not: a Unix stream that is closed with bytes unread is reset. */
static bool ask_again(struct link *link)
{
	bool unread = link->box.reset || link->box.broken;
	if (!link->relay.head_size || end_held(&link->box) || link->relay.interim)
		return false;
	if (!link->repeatable && !unread)
		return false;
	link->relay.head_size = 0;
	free(TAKE(link->runs)); /* it will be again */
	front_done(link);
	front_leave(link);
	set_phase(link, AT_HEAD);
	return true;
}

/* Also when its last bytes wait in a pipe: the next head must not overtake them. */
static void answer_done(struct link *link)
{
	bool surplus = end_held(&link->box) > 0;
	bool whole = link->relay.up.done && !link->client.eof;
	front_done(link);
	if (surplus) { /* more than was asked for: neither side of this can be trusted to be in step */
		log_debug("box %s: surplus bytes", link->target ? link->target->id : "(host)");
		finish_client(link);
		return;
	}
	if (!link->relay.keep_alive || !whole) {
		finish_client(link);
		return;
	}
	if (link->relay.last || link->box.eof || link->box.broken)
		front_leave(link);
	set_phase(link, AT_HEAD);
	link->woken = false;
}

/* Whether there is nothing more to see of what a request runs. */
static bool has_passed(const struct link *link)
{
	const struct relay *relay = &link->relay;
	return relay->upgrade ? relay->tunnel && exec_tap_whole(link->tap.data, link->tap.len)
			      : relay->up.done;
}

static bool relay(struct link *link)
{
	const struct relay_tools tools = tools_of(link);
	const char *why;
	link->relay.up.tap = link->runs ? &link->tap : NULL; /* a tunnel is a flow of its own */
	enum relay_step step = relay_step(&link->relay, &tools, &why);
	if (link->runs && has_passed(link))
		front_ran(link);
	switch (step) {
	case RELAY_WAITS:
		return false;
	case RELAY_MOVED:
		if (link->relay.tunnel && link->target)
			link->target->used_ms = tools.now_ms;
		return true;
	case RELAY_DONE:
		if (link->relay.tunnel)
			set_phase(link, DEAD);
		else
			answer_done(link);
		return true;
	case RELAY_CLOSED:
	case RELAY_WRONG:
		if (step == RELAY_WRONG || !ask_again(link))
			blame(link, why);
		return true;
	default: /* an end in good order would be a lie */
		set_phase(link, DEAD);
		return true;
	}
}

static bool linger(struct link *link)
{
	if (end_pending(&link->client) && !link->client.broken)
		return false;
	if (!link->relay.told_client) {
		shutdown(link->client.fd, SHUT_WR);
		link->relay.told_client = true;
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
	if (link->phase != RELAYING)
		end_flush(&link->client);
	switch (link->phase) {
	case AT_HEAD:
		return !end_pending(&link->client) && read_request(link);
	case PARKED: {
		const struct relay_tools tools = tools_of(link);
		struct err err;
		return relay_head(&link->client, true, &tools, &err) > 0 && begin_request(link);
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
	    (relaying && relay_reads_client(&link->relay)))
		client |= EPOLLIN;
	if (end_pending(&link->client))
		client |= EPOLLOUT;
	if (!relaying || relay_reads_server(&link->relay))
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
	if (link->phase != RELAYING || !link->relay.up.done)
		return;
	char byte; /* more requests may be there, which are answered first */
	if (end_held(&link->client) == link->relay.head_size && !end_pending(&link->box) &&
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
		link->relay.moved_ms = link->loop->now_ms;
	link->untaken = left;
	link->since_ms = link->loop->now_ms; /* what comes next is waited for after that */
}

/* Those that follow: whether something took too long, and was ended. */

/* A request or an answer on its way. */
static bool expire_relay(struct link *link)
{
	const struct gateway_config *config = link->loop->config;
	const struct relay_patience patience = { .send_ms = config->send_ms,
						 .tunnel_send_ms = TUNNEL_SEND_MS,
						 .body_ms = config->body_ms };
	int64_t until_ms;
	enum relay_fault fault = relay_waits_for(&link->relay, &patience, &until_ms);
	bool endless = link->relay.tunnel || link->relay.events;
	if (link->loop->now_ms <= until_ms && !(endless && link->loop->stopping))
		return false;
	if (fault == RELAY_SLOW_CLIENT)
		refuse(link, 408, "the body took too long to arrive", true);
	else
		set_phase(link, DEAD);
	return true;
}

static bool expire_head(struct link *link, int64_t ms)
{
	const struct gateway_config *config = link->loop->config;
	struct err err = { 0 };
	if (end_held(&link->client) && ms > config->head_ms) {
		err_set(&err, ERR_SLOW, "the head took too long to arrive");
		link->relay.keep_alive = link->relay.head_only = false;
		return refuse_request(link, NULL, &err);
	}
	if (!end_pending(&link->client) && (ms > config->idle_ms || link->loop->stopping))
		set_phase(link, DEAD);
	else if (link->box.fd >= 0 && ms > STREAM_IDLE_MS)
		front_leave(link); /* before the box's server does, in the middle of a request */
	else
		return false;
	return true;
}

static bool expire_parked(struct link *link, int64_t ms)
{
	if (ms > PARK_MS)
		refuse(link, 503, "the sandbox did not resume in time", true);
	link->woken = false; /* it may have been paused again meanwhile: ask once more */
	return true;
}

static bool expire(struct link *link)
{
	bool pending = end_pending(&link->client) || end_pending(&link->box);
	if (pending)
		note_taken(link);
	int64_t now = link->loop->now_ms, ms = now - link->since_ms;
	if (link->phase == RELAYING)
		return expire_relay(link);
	bool stuck = pending && now - link->relay.moved_ms > link->loop->config->send_ms;
	if (!stuck && link->phase == AT_HEAD)
		return expire_head(link, ms);
	if (!stuck && link->phase == PARKED)
		return expire_parked(link, ms);
	if (!stuck && (pending || ms <= LINGER_MS))
		return false;
	set_phase(link, DEAD);
	return true;
}

void link_expire(struct link *link)
{
	if (!link->buried && expire(link))
		link_run(link, 0, 0);
}
