#include "desktop/x_link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "desktop/x_protocol.h"
#include "net/dial.h"

enum {
	OUT_MAX = 4 << 20,
	ROUND_MS = 10000, /* a server that takes longer for a reply is stuck */
	CONNECT_MS = 5000,
};

/* ---- sending and receiving ---- */

static int lost(struct x_link *link, struct err *err)
{
	link->broken = true;
	return err_set(err, ERR_UNAVAILABLE, "the connection to the desktop's X server broke");
}

static int garbled(struct x_link *link, struct err *err)
{
	link->broken = true;
	return err_set(err, ERR_UNAVAILABLE, "the desktop's X server sent a malformed reply");
}

/* A caller that leaves does not end a round trip: half a request could not be taken back. */
static struct wait round_wait(const struct wait *wait)
{
	int64_t until_ms = clock_ms() + ROUND_MS;
	return (struct wait){ wait->until_ms < until_ms ? wait->until_ms : until_ms, -1,
			      wait->stop_fd };
}

static int await(struct x_link *link, short events, const struct wait *wait, struct err *err)
{
	enum wake wake = wait_fd(wait, link->fd, events);
	if (wake == WAKE_TIMEOUT)
		return err_set(err, ERR_UNAVAILABLE, "the desktop's X server does not respond");
	return wake_err(wake, err);
}

static ssize_t send_some(struct x_link *link, size_t at)
{
	struct iovec iov = { link->out.data + at, link->out.len - at };
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (link->pass_fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof control;
		struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &link->pass_fd, sizeof(int));
	}
	return sendmsg(link->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int receive(struct x_link *link, const struct wait *wait, struct err *err);

/* What comes meanwhile is received, or a server that waits for us to read would never read again. */
static int await_room(struct x_link *link, const struct wait *wait, struct err *err)
{
	struct pollfd poll = { .fd = link->fd, .events = POLLIN | POLLOUT };
	enum wake wake = wait_poll(wait, &poll, 1);
	if (wake != WAKE_READY) {
		link->broken = true; /* part of a request was sent */
		return err_set(err, ERR_UNAVAILABLE, "the desktop's X server does not respond");
	}
	return poll.revents & POLLIN ? receive(link, wait, err) : 0;
}

static int send_out(struct x_link *link, const struct wait *wait, struct err *err)
{
	for (size_t at = 0; at < link->out.len;) {
		ssize_t n = send_some(link, at);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return lost(link, err);
		if (n < 0 && await_room(link, wait, err) < 0)
			return -1;
		if (n < 0)
			continue;
		link->pass_fd = -1;
		at += (size_t)n;
	}
	return 0;
}

int x_link_flush(struct x_link *link, const struct wait *wait, struct err *err)
{
	const struct wait round = round_wait(wait);
	if (link->broken)
		return lost(link, err);
	int result = link->out.full ? err_set(err, ERR_TOO_LARGE, "too much for the X server")
				    : send_out(link, &round, err);
	if (link->out.full)
		link->broken = true; /* the requests are counted, and not sent */
	link->out.len = 0;
	return result;
}

/* Receives something. */
static int receive(struct x_link *link, const struct wait *wait, struct err *err)
{
	size_t room;
	char *to = x_wire_room(&link->wire, &room);
	if (!to)
		return garbled(link, err);
	for (;;) {
		ssize_t n = recv(link->fd, to, room, MSG_DONTWAIT);
		if (n > 0) {
			x_wire_take(&link->wire, (size_t)n);
			return 0;
		}
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return lost(link, err);
		if (await(link, POLLIN, wait, err) < 0)
			return -1;
	}
}

/* ---- requests ---- */

void x_link_put_tail(struct x_link *link, const struct x_request *request)
{
	if (x_wire_put(&link->out, request) < 0)
		link->out.full = true;
	link->sequence++;
}

void x_link_put(struct x_link *link, unsigned opcode, unsigned detail, const uint32_t *words,
		size_t count)
{
	x_link_put_tail(link, &(struct x_request){ opcode, detail, words, count, NULL, 0 });
}

static int refused(struct x_link *link, const unsigned char *data, struct err *err)
{
	link->refused = data[1] ? data[1] : X_BAD_VALUE;
	return err_set(err, ERR_INTERNAL, "the X server refused request %u.%u with error %u",
		       data[10], x_get16(data + 8), data[1]);
}

/* Whether a packet is of a request after that one. */
static bool is_after(uint16_t sequence, uint16_t other)
{
	return (int16_t)(uint16_t)(sequence - other) > 0;
}

/* One packet while a reply is waited for: 1: it is that, 0: go on, -1: it ends the wait. */
static int take_reply(struct x_link *link, uint16_t first, const struct x_packet *packet,
		      struct err *err)
{
	if (packet->kind != X_REPLY && packet->kind != X_ERROR) {
		if (link->kept.cap)
			(void)buf_add(&link->kept, packet->data, X_PACKET);
		return 0;
	}
	if (is_after(packet->sequence, link->sequence))
		return garbled(link, err);
	if (packet->kind == X_ERROR && !is_after(first, packet->sequence)) {
		if (!link->refused)
			(void)refused(link, packet->data, err);
		return packet->sequence == link->sequence ? -1 : 0;
	}
	return packet->kind == X_REPLY && packet->sequence == link->sequence;
}

int x_link_reply(struct x_link *link, size_t least, struct x_packet *ret, const struct wait *wait,
		 struct err *err)
{
	const struct wait round = round_wait(wait);
	const uint16_t first = (uint16_t)(link->answered + 1);
	link->refused = 0;
	int result = x_link_flush(link, wait, err) < 0 ? -1 : 0;
	while (result == 0) {
		if (x_wire_next(&link->wire, ret))
			result = take_reply(link, first, ret, err);
		else
			result = link->wire.failed ? garbled(link, err)
						   : receive(link, &round, err);
	}
	link->answered = link->sequence;
	if (result > 0 && ret->len < least)
		return garbled(link, err);
	return result > 0 && !link->refused ? 0 : -1;
}

int x_link_sync(struct x_link *link, const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	x_link_put(link, X_GET_INPUT_FOCUS, 0, NULL, 0);
	return x_link_reply(link, X_PACKET, &packet, wait, err);
}

static bool take_kept(struct x_link *link, struct x_packet *ret)
{
	if (link->kept_at == link->kept.len)
		return false;
	memcpy(link->event, link->kept.data + link->kept_at, X_PACKET);
	link->kept_at += X_PACKET;
	if (link->kept_at == link->kept.len) {
		link->kept_at = link->kept.len = 0;
		link->kept.full = false; /* what did not fit was dropped */
	}
	*ret = (struct x_packet){ link->event[0] & 0x7fU, x_get16(link->event + 2), link->event,
				  X_PACKET };
	return true;
}

int x_link_event(struct x_link *link, int also, struct x_packet *ret, const struct wait *wait,
		 struct err *err)
{
	while (!take_kept(link, ret) && !x_wire_next(&link->wire, ret)) {
		struct pollfd fds[] = { { link->fd, POLLIN, 0 }, { also, POLLIN, 0 } };
		if (link->wire.failed)
			return garbled(link, err);
		enum wake wake = wait_poll(wait, fds, 2);
		if (wake != WAKE_READY)
			return wake_err(wake, err);
		if (fds[0].revents && receive(link, wait, err) < 0)
			return -1;
		if (!fds[0].revents) {
			ret->kind = X_REPLY;
			return 0;
		}
	}
	return 0;
}

/* ---- names ---- */

uint32_t x_link_id(struct x_link *link)
{
	uint32_t mask = link->setup.id_mask, step = mask & -mask;
	uint32_t id = link->setup.id_base | (link->next_id & mask);
	link->next_id += step;
	return id;
}

uint32_t x_link_atom(struct x_link *link, const char *name, const struct wait *wait)
{
	struct x_packet packet;
	const uint32_t length = (uint32_t)strlen(name);
	x_link_put_tail(link,
			&(struct x_request){ X_INTERN_ATOM, 0, &length, 1, name, strlen(name) });
	if (x_link_reply(link, X_PACKET, &packet, wait, NULL) < 0)
		return 0;
	return x_get32(packet.data + 8);
}

unsigned x_link_extension(struct x_link *link, const char *name, const struct wait *wait)
{
	struct x_packet packet;
	const uint32_t length = (uint32_t)strlen(name);
	x_link_put_tail(link, &(struct x_request){ X_QUERY_EXTENSION, 0, &length, 1, name,
						   strlen(name) });
	if (x_link_reply(link, X_PACKET, &packet, wait, NULL) < 0 || !packet.data[8])
		return 0;
	return packet.data[9];
}

/* ---- properties ---- */

int x_property_read(const struct x_packet *packet, struct x_property *ret)
{
	const unsigned char *data = packet->data;
	size_t format = data[1], items = x_get32(data + 16);
	if (format != 0 && format != 8 && format != 16 && format != 32)
		return -1;
	if (items > (packet->len - X_PACKET) / (format ? format / 8 : 1) || (!format && items))
		return -1;
	*ret = (struct x_property){ x_get32(data + 8), (unsigned)format, data + X_PACKET,
				    items * format / 8, x_get32(data + 12) > 0 };
	return 0;
}

int x_link_property(struct x_link *link, uint32_t window, uint32_t name, bool and_delete,
		    uint32_t most, struct x_property *ret, const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	const uint32_t words[] = { window, name, X_ANY, 0, most };
	x_link_put(link, X_GET_PROPERTY, and_delete, words, COUNT(words));
	if (x_link_reply(link, X_PACKET, &packet, wait, err) < 0)
		return -1;
	return x_property_read(&packet, ret) < 0 ? garbled(link, err) : 0;
}

/* ---- beginning ---- */

static int greet(struct x_link *link, const unsigned char cookie[X_COOKIE], const struct wait *wait,
		 struct err *err)
{
	const unsigned char *data;
	size_t len;
	const struct wait round = round_wait(wait);
	x_setup_ask(&link->out, cookie);
	if (x_link_flush(link, wait, err) < 0)
		return -1;
	while (!x_wire_setup(&link->wire, &data, &len))
		if (receive(link, &round, err) < 0)
			return -1;
	return x_setup_read(data, len, &link->setup, err);
}

int x_link_open(struct x_link *link, int number, const unsigned char cookie[X_COOKIE],
		const struct wait *wait, struct err *err)
{
	char path[64];
	const struct dial_wait dialled = { .all = *wait, .connect_ms = CONNECT_MS };
	snprintf(path, sizeof path, "/tmp/.X11-unix/X%d", number);
	struct err cause;
	*link = (struct x_link){ .fd = dial_unix(path, &dialled, &cause),
				 .pass_fd = -1,
				 .out = BUF(OUT_MAX) };
	x_wire_init(&link->wire);
	if (link->fd < 0)
		(void)err_set(err, ERR_UNAVAILABLE, "no connection to the desktop's X server: %s",
			      cause.msg);
	if (link->fd >= 0 && greet(link, cookie, wait, err) == 0)
		return 0;
	x_link_done(link);
	return -1;
}

void x_link_done(struct x_link *link)
{
	own_close(&link->fd);
	link->fd = -1;
	x_wire_done(&link->wire);
	buf_done(&link->out);
	buf_done(&link->kept);
}
