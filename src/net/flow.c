#include "net/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"

enum {
	OVERHEAD_MAX = 65536,
	PIECES_A_TURN = 8,
	KEEP = 4096,
	SPLICE_PIECE = 256 * 1024,
	SPLICE_MIN = 1 << 20
};

/* ---- ends ---- */

static ssize_t socket_receive(struct end *end, void *to, size_t room)
{
	return recv(end->fd, to, room, MSG_DONTWAIT);
}

static ssize_t socket_send(struct end *end, struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	if (count == 1)
		return send(end->fd, parts->iov_base, parts->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sendmsg(end->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void socket_half_close(struct end *end)
{
	shutdown(end->fd, SHUT_WR);
}

static const struct end_io socket_io = { socket_receive, socket_send, socket_half_close };

void end_init(struct end *end, int fd)
{
	*end = (struct end){ .fd = fd,
			     .io = &socket_io,
			     .in = BUF(FLOW_OUT_MAX),
			     .out = BUF(FLOW_OUT_MAX),
			     .pipe = { -1, -1 } };
}

static void drop_pipe(struct end *end)
{
	own_close(&end->pipe[0]);
	own_close(&end->pipe[1]);
	end->pipe[0] = end->pipe[1] = -1;
	end->piped = 0;
}

void end_close(struct end *end)
{
	drop_pipe(end);
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
		ssize_t n =
			end->io->send(end, &(struct iovec){ (void *)(data + sent), len - sent }, 1);
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
	end->corked = false;
	if (!end_pending(end))
		return;
	/* Nothing goes into the pipe while something waits in `out`: what is there came later. */
	while (end->piped && !end->broken) {
		ssize_t n = splice(end->pipe[0], NULL, end->fd, NULL, end->piped,
				   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n > 0)
			end->piped -= (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			return;
		else if (n == 0 || errno != EINTR)
			end->broken = true;
	}
	if (end->broken)
		drop_pipe(end);
	if (end->out_at < end->out.len)
		end->out_at +=
			send_some(end, end->out.data + end->out_at, end->out.len - end->out_at);
	if (end->out_at == end->out.len)
		empty(&end->out, &end->out_at);
}

/* A head and the beginning of its body, in one piece. */
static void put_corked(struct end *end, const char *data, size_t len)
{
	size_t head = end->out.len - end->out_at;
	struct iovec parts[] = { { end->out.data + end->out_at, head }, { (void *)data, len } };
	ssize_t n = end->io->send(end, parts, COUNT(parts));
	size_t sent = n < 0 ? 0 : (size_t)n;
	end->corked = false;
	end->out_at += sent < head ? sent : head;
	sent -= sent < head ? sent : head;
	if (!end_pending(end))
		empty(&end->out, &end->out_at);
	end_put(end, data + sent, len - sent);
}

void end_put(struct end *end, const char *data, size_t len)
{
	if (end->corked && len) {
		put_corked(end, data, len);
		return;
	}
	if (!len)
		return;
	size_t sent = end_pending(end) ? 0 : send_some(end, data, len);
	if (sent < len && buf_add(&end->out, data + sent, len - sent) < 0)
		end->broken = true;
}

bool end_fill(struct end *end, char *piece, size_t room)
{
	if (!end->readable || end->eof)
		return false;
	ssize_t n = end->io->receive(end, piece, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		end->readable = false;
		return false;
	}
	if (n <= 0) {
		end->eof = true;
		end->reset = n < 0 && errno == ECONNRESET;
		return true;
	}
	end->readable = (size_t)n == room;
	return buf_add(&end->in, piece, (size_t)n) == 0;
}

void end_take(struct end *end, size_t n)
{
	end->in_at += n;
	end->looked = 0;
	if (end->in_at == end->in.len)
		empty(&end->in, &end->in_at);
}

/* ---- bodies ---- */

static void tap(struct flow *flow, const char *data, size_t len)
{
	size_t room = flow->tap ? flow->tap->cap - flow->tap->len : 0;
	if (room)
		buf_add(flow->tap, data, len < room ? len : room);
}

static int on_data(llhttp_t *parser, const char *at, size_t len)
{
	struct flow *flow = parser->data;
	flow->overhead = 0;
	tap(flow, at, len);
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
	tap(flow, data, len);
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
	ssize_t n = from->io->receive(from, piece, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		from->readable = false;
		return -1;
	}
	from->eof = n <= 0;
	from->readable = (size_t)(n < 0 ? 0 : n) ==
			 room; /* else there is no more: ask no more often */
	return n < 0 ? 0 : n;
}

static bool may_splice(const struct flow *flow, const struct end *from, struct end *to)
{
	if (!flow->splice || flow->tap || flow->kind != BODY_LENGTH || end_held(from) ||
	    end_pending(to))
		return false;
	if (to->pipe[1] < 0 && flow->left >= SPLICE_MIN &&
	    pipe2(to->pipe, O_CLOEXEC | O_NONBLOCK) == 0)
		fcntl(to->pipe[1], F_SETPIPE_SZ, SPLICE_PIECE);
	return to->pipe[1] >= 0;
}

/* The pages of a large body, without a look at them. As flow_pump(). */
static int pump_pages(struct flow *flow, struct end *from, struct end *to)
{
	int moved = 0;
	for (int i = 0; i < PIECES_A_TURN && !flow->done && !end_pending(to); i++) {
		size_t room = flow->left < SPLICE_PIECE ? (size_t)flow->left : SPLICE_PIECE;
		ssize_t n = splice(from->fd, NULL, to->pipe[1], NULL, room,
				   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			from->readable = false;
			break;
		}
		if (n <= 0) {
			from->eof = true;
			return -1;
		}
		to->piped = (size_t)n;
		flow->left -= n;
		flow->done = flow->left == 0;
		moved = 1;
		end_flush(to);
	}
	if (flow->done && !to->piped)
		drop_pipe(to);
	return moved;
}

int flow_pump(struct flow *flow, struct end *from, struct end *to, char *piece)
{
	int moved = 0;
	if (may_splice(flow, from, to))
		return from->readable ? pump_pages(flow, from, to) : 0;
	for (int i = 0; i < PIECES_A_TURN && !flow->done && (!end_pending(to) || to->corked); i++) {
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
