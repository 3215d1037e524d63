#include "net/flow.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"

enum { OVERHEAD_MAX = 65536, PIECES_A_TURN = 8, KEEP = 4096 };

/* ---- ends ---- */

void end_init(struct end *end, int fd)
{
	*end = (struct end){ .fd = fd, .in = BUF(FLOW_OUT_MAX), .out = BUF(FLOW_OUT_MAX) };
}

void end_close(struct end *end)
{
	own_close(&end->fd);
	buf_done(&end->in);
	buf_done(&end->out);
	end_init(end, -1);
}

static void empty(struct buf *buf, size_t *at)
{
	*at = 0;
	if (buf->room > KEEP) {
		size_t cap = buf->cap;
		buf_done(buf);
		buf_init(buf, cap);
	}
	buf->len = 0;
}

/* How much of it went out. */
static size_t send_some(struct end *end, const char *data, size_t len)
{
	size_t sent = 0;
	while (sent < len && !end->broken) {
		ssize_t n = send(end->fd, data + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			end->broken = true;
	}
	return end->broken ? len : sent;
}

void end_flush(struct end *end)
{
	if (!end_pending(end))
		return;
	end->out_at += send_some(end, end->out.data + end->out_at, end->out.len - end->out_at);
	if (!end_pending(end))
		empty(&end->out, &end->out_at);
}

void end_put(struct end *end, const char *data, size_t len)
{
	size_t sent = end_pending(end) ? 0 : send_some(end, data, len);
	if (sent < len && buf_add(&end->out, data + sent, len - sent) < 0)
		end->broken = true;
}

void end_take(struct end *end, size_t n)
{
	end->in_at += n;
	end->looked = 0;
	if (end->in_at == end->in.len)
		empty(&end->in, &end->in_at);
}

/* ---- bodies ---- */

static int on_data(llhttp_t *parser, const char *at, size_t len)
{
	struct flow *flow = parser->data;
	flow->overhead = 0;
	if (!flow->bare)
		buf_printf(&flow->to->out, "%zx\r\n", len);
	buf_add(&flow->to->out, at, len);
	if (!flow->bare)
		buf_str(&flow->to->out, "\r\n");
	return 0;
}

static int on_end(llhttp_t *parser)
{
	struct flow *flow = parser->data;
	flow->done = true;
	if (!flow->bare)
		buf_str(&flow->to->out, "0\r\n\r\n");
	return HPE_PAUSED;
}

static const llhttp_settings_t chunks = { .on_body = on_data, .on_message_complete = on_end };

void flow_begin(struct flow *flow, enum body_kind kind, int64_t length, const llhttp_t *after_head)
{
	*flow = (struct flow){ .kind = kind, .left = length };
	flow->done = kind == BODY_NONE || (kind == BODY_LENGTH && length == 0);
	if (kind != BODY_CHUNKED)
		return;
	flow->parser = *after_head;
	flow->parser.settings = (void *)&chunks;
	llhttp_resume(&flow->parser);
}

static ssize_t take_chunks(struct flow *flow, const char *data, size_t len, struct end *to)
{
	flow->to = to;
	flow->parser.data = flow;
	flow->overhead += len; /* set back by data; chunks of one byte are their sender's loss */
	llhttp_errno_t got = llhttp_execute(&flow->parser, data, len);
	if ((got != HPE_OK && got != HPE_PAUSED) || flow->overhead > OVERHEAD_MAX + FLOW_PIECE ||
	    to->out.full)
		return -1;
	end_flush(to);
	return flow->done ? llhttp_get_error_pos(&flow->parser) - data : (ssize_t)len;
}

/* Passes on what belongs to the body; how much that was. */
static ssize_t take(struct flow *flow, const char *data, size_t len, struct end *to)
{
	if (flow->kind == BODY_CHUNKED)
		return take_chunks(flow, data, len, to);
	if (flow->kind == BODY_LENGTH && (int64_t)len > flow->left)
		len = (size_t)flow->left;
	end_put(to, data, len);
	if (flow->kind == BODY_LENGTH) {
		flow->left -= (int64_t)len;
		flow->done = flow->left == 0;
	}
	return (ssize_t)len;
}

/* At the end of the stream: the end of a body that has no other; else the body is cut. */
static int at_end(struct flow *flow)
{
	if (flow->kind != BODY_TO_END)
		return -1;
	flow->done = true;
	return 1;
}

static ssize_t receive(struct end *from, const struct flow *flow, char *piece)
{
	size_t room = FLOW_PIECE;
	if (flow->kind == BODY_LENGTH && (int64_t)room > flow->left)
		room = (size_t)flow
			       ->left; /* what follows is not this body's: it stays where it is */
	ssize_t n = recv(from->fd, piece, room, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		from->readable = false;
		return -1;
	}
	from->eof = n <= 0;
	return n < 0 ? 0 : n;
}

int flow_pump(struct flow *flow, struct end *from, struct end *to, char *piece)
{
	int moved = 0;
	for (int i = 0; i < PIECES_A_TURN && !flow->done && !end_pending(to); i++) {
		size_t held = end_held(from);
		if (held) {
			ssize_t used = take(flow, from->in.data + from->in_at, held, to);
			if (used < 0)
				return -1;
			end_take(from, (size_t)used);
		} else if (from->eof) {
			return at_end(flow);
		} else if (from->readable) {
			ssize_t n = receive(from, flow, piece);
			if (n < 0)
				break;
			if (n == 0)
				return at_end(flow);
			ssize_t used = take(flow, piece, (size_t)n, to);
			if (used < 0 || buf_add(&from->in, piece + used, (size_t)(n - used)) < 0)
				return -1;
		} else {
			break;
		}
		moved = 1;
	}
	return moved;
}
