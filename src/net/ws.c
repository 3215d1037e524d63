#include "net/ws.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <openssl/evp.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "base/wait.h"

enum {
	SEND_TIMEOUT_MS = 30 * 1000,
	CLOSE_TIMEOUT_MS = 2000,
	LATE_READS = 16,       /* that ws_recv() still does when its time is over */
	KEEP_ROOM = 64 * 1024, /* of the message buffer, between two messages */
	CONTROL_MAX = 125,
	REASON_MAX = CONTROL_MAX - 2,
};

enum state {
	OPEN,
	CLOSED, /* the peer's Close came */
	FAILED, /* the peer broke a rule, our Close says which */
	LOST,
};

struct ws {
	int fd;
	bool own_fd;
	enum ws_role role;
	wslay_frame_context_ptr frames; /* its receiving and sending halves share no fields */

	/* the owner's */
	enum state state;
	int close_code;
	char close_reason[REASON_MAX + 1];
	char *early; /* input that came with the handshake */
	size_t early_len, early_used;
	enum { INPUT_SOME, INPUT_NONE, INPUT_ENDED } input; /* what the last read found */
	bool pending;
	int64_t deadline_ms; /* of this ws_recv() */
	int late_reads;
	struct buf message;
	size_t checked; /* how much of a text is known to be UTF-8 */
	int opcode;     /* of the message that is coming in; 0 for none */
	bool delivered;
	bool in_frame;
	uint64_t frame_left;
	char control[CONTROL_MAX];
	size_t control_len;
	int keepalive_ms;
	int64_t heard_ms, pinged_ms; /* pinged_ms is 0 when no answer is due */

	/* the senders', under the lock */
	pthread_mutex_t lock;
	int send_timeout_ms;
	int patience_ms; /* of the send under way */
	int send_error;
	bool close_sent;
};

/* ---- sending ---- */

static ssize_t on_write(const uint8_t *data, size_t len, int flags, void *user)
{
	struct ws *ws = user;
	int more = flags & WSLAY_MSG_MORE ? MSG_MORE : 0;
	int64_t until_ms = clock_ms() + ws->patience_ms;
	for (;;) {
		ssize_t n = send(ws->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL | more);
		if (n > 0)
			return n;
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			ws->send_error = ERR_GONE;
			return -1;
		}
		if (!wait_until(ws->fd, POLLOUT, until_ms)) {
			ws->send_error = ERR_SLOW;
			return -1;
		}
	}
}

static int on_mask(uint8_t *to, size_t len, void *user)
{
	(void)user;
	return getrandom(to, len, 0) == (ssize_t)len ? 0 : -1;
}

/* Under the lock. A frame that was not sent whole leaves a stream that nothing can follow. */
static int send_frame(struct ws *ws, int opcode, const void *data, size_t len, int timeout_ms,
		      struct err *err)
{
	struct wslay_frame_iocb io = {
		.fin = 1,
		.opcode = (uint8_t)opcode,
		.mask = ws->role == WS_CLIENT,
		.payload_length = len,
		.data = data,
		.data_length = len,
	};
	ws->patience_ms = timeout_ms;
	for (;;) {
		ssize_t n = wslay_frame_send(ws->frames, &io);
		if (n < 0 && n != WSLAY_ERR_WANT_WRITE)
			ws->send_error = ERR_INTERNAL;
		if (ws->send_error == ERR_SLOW)
			return err_set(err, ERR_SLOW, "the WebSocket peer does not read");
		if (ws->send_error)
			return err_set(err, ws->send_error, "the WebSocket connection is lost");
		if (n > 0) {
			io.data += n;
			io.data_length -= (size_t)n;
		}
		if (n >= 0 && !io.data_length)
			return 0;
	}
}

static int send_locked(struct ws *ws, int opcode, const void *data, size_t len, struct err *err)
{
	int r;
	pthread_mutex_lock(&ws->lock);
	if (ws->close_sent || ws->send_error)
		r = err_set(err, ERR_GONE, "the WebSocket is closed");
	else
		r = send_frame(ws, opcode, data, len, ws->send_timeout_ms, err);
	pthread_mutex_unlock(&ws->lock);
	return r;
}

int ws_send(struct ws *ws, enum ws_opcode opcode, const void *data, size_t len, struct err *err)
{
	return send_locked(ws, (int)opcode, data, len, err);
}

int ws_ping(struct ws *ws, struct err *err)
{
	return send_locked(ws, WSLAY_PING, NULL, 0, err);
}

/* Sends Close, if none was sent yet; without a code for WS_NO_CODE. Whether sending still works. */
static bool send_close(struct ws *ws, int code, const char *reason)
{
	char payload[CONTROL_MAX] = { (char)(code >> 8), (char)code };
	size_t len = utf8_span(reason, strnlen(reason, REASON_MAX));
	memcpy(payload + 2, reason, len);
	pthread_mutex_lock(&ws->lock);
	if (!ws->close_sent && !ws->send_error)
		(void)send_frame(ws, WSLAY_CONNECTION_CLOSE, payload,
				 code == WS_NO_CODE ? 0 : len + 2, CLOSE_TIMEOUT_MS, NULL);
	ws->close_sent = true;
	bool works = !ws->send_error;
	pthread_mutex_unlock(&ws->lock);
	return works;
}

/* ---- how it ends ---- */

static int lost(struct ws *ws, struct err *err, const char *why)
{
	ws->state = LOST;
	ws->close_code = WS_ABNORMAL;
	return err_set(err, ERR_GONE, "%s", why);
}

static int fail(struct ws *ws, int code, struct err *err, const char *why)
{
	ws->state = FAILED;
	ws->close_code = code;
	snprintf(ws->close_reason, sizeof ws->close_reason, "%s", why);
	buf_done(&ws->message);
	(void)send_close(ws, code, why);
	return err_set(err, code == WS_TOO_BIG ? ERR_TOO_LARGE : ERR_BAD_REQUEST,
		       "broken WebSocket: %s", why);
}

static bool code_is_valid(int code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static int take_close(struct ws *ws, struct err *err)
{
	int code = WS_NO_CODE;
	size_t reason_len = 0;
	if (ws->control_len) {
		if (ws->control_len < 2)
			return fail(ws, WS_PROTOCOL_ERROR, err, "half a close code");
		code = (uint8_t)ws->control[0] << 8 | (uint8_t)ws->control[1];
		reason_len = ws->control_len - 2;
		if (!code_is_valid(code))
			return fail(ws, WS_PROTOCOL_ERROR, err, "a close code that means nothing");
		if (!utf8_valid(ws->control + 2, reason_len))
			return fail(ws, WS_BAD_DATA, err, "a close reason that is not UTF-8");
	}
	ws->state = CLOSED;
	ws->close_code = code;
	memcpy(ws->close_reason, ws->control + 2, reason_len);
	ws->close_reason[reason_len] = 0;
	(void)send_close(ws, code, "");
	return 0;
}

/* ---- receiving ---- */

static ssize_t on_read(uint8_t *to, size_t room, int flags, void *user)
{
	struct ws *ws = user;
	(void)flags;
	ws->input = INPUT_SOME;
	if (ws->early) {
		size_t n = ws->early_len - ws->early_used;
		n = n < room ? n : room;
		memcpy(to, ws->early + ws->early_used, n);
		ws->early_used += n;
		if (ws->early_used == ws->early_len) {
			free(ws->early);
			ws->early = NULL;
		}
		return (ssize_t)n;
	}
	/* A peer that never stops sending must not keep us beyond our time. */
	int64_t now_ms = clock_ms();
	if (now_ms >= ws->deadline_ms && --ws->late_reads < 0) {
		ws->input = INPUT_NONE;
		return -1;
	}
	ssize_t n = recv(ws->fd, to, room, MSG_DONTWAIT);
	if (n > 0) {
		ws->heard_ms = now_ms;
		ws->pinged_ms = 0;
		return n;
	}
	ws->input = n < 0 && (errno == EAGAIN || errno == EINTR) ? INPUT_NONE : INPUT_ENDED;
	return -1;
}

/* When keep_alive() has to act next. */
static int64_t keepalive_at(const struct ws *ws)
{
	if (!ws->keepalive_ms)
		return INT64_MAX;
	return (ws->pinged_ms ? ws->pinged_ms : ws->heard_ms) + ws->keepalive_ms;
}

static int keep_alive(struct ws *ws, struct err *err)
{
	int64_t now_ms = clock_ms();
	if (now_ms < keepalive_at(ws))
		return 0;
	if (ws->pinged_ms)
		return lost(ws, err, "the WebSocket peer does not answer");
	ws->pinged_ms = now_ms;
	(void)ws_ping(ws, NULL); /* what cannot be sent is not answered either */
	return 0;
}

/* Waits for input. 0, or -1 when the time is over or the connection is. */
static int wait_input(struct ws *ws, struct err *err)
{
	for (;;) {
		if (keep_alive(ws, err) < 0)
			return -1;
		int64_t until_ms = keepalive_at(ws);
		if (until_ms > ws->deadline_ms)
			until_ms = ws->deadline_ms;
		if (clock_ms() < until_ms && wait_until(ws->fd, POLLIN, until_ms))
			return 0;
		if (clock_ms() >= ws->deadline_ms)
			return err_set(err, ERR_SLOW, "no WebSocket message in time");
	}
}

/* Judges a frame by its head. */
static int frame_start(struct ws *ws, const struct wslay_frame_iocb *io, struct err *err)
{
	if (io->rsv)
		return fail(ws, WS_PROTOCOL_ERROR, err, "a frame with a reserved bit");
	if (io->mask != (ws->role == WS_SERVER))
		return fail(ws, WS_PROTOCOL_ERROR, err,
			    io->mask ? "a masked frame from a server"
				     : "an unmasked frame from a client");
	ws->in_frame = true;
	ws->frame_left = io->payload_length;
	switch (io->opcode) {
	case WSLAY_CONNECTION_CLOSE:
	case WSLAY_PING:
	case WSLAY_PONG:
		ws->control_len = 0;
		return 0;
	case WSLAY_TEXT_FRAME:
	case WSLAY_BINARY_FRAME:
		if (ws->opcode)
			return fail(ws, WS_PROTOCOL_ERROR, err, "a message inside another");
		ws->opcode = io->opcode;
		break;
	case WSLAY_CONTINUATION_FRAME:
		if (!ws->opcode)
			return fail(ws, WS_PROTOCOL_ERROR, err, "a continuation of nothing");
		break;
	default:
		return fail(ws, WS_PROTOCOL_ERROR, err, "a frame of an unknown kind");
	}
	if (io->payload_length > ws->message.cap - ws->message.len)
		return fail(ws, WS_TOO_BIG, err, "a message that is too big");
	return 0;
}

static int frame_data(struct ws *ws, const struct wslay_frame_iocb *io, struct err *err)
{
	if (wslay_is_ctrl_frame(io->opcode)) {
		memcpy(ws->control + ws->control_len, io->data, io->data_length);
		ws->control_len += io->data_length;
		return 0;
	}
	buf_add(&ws->message, io->data, io->data_length);
	if (ws->opcode != WS_TEXT)
		return 0;
	const char *text = ws->message.data;
	size_t len = ws->message.len;
	ws->checked += utf8_span(text + ws->checked, len - ws->checked);
	size_t rest = len - ws->checked;
	bool ends = io->fin && !ws->frame_left;
	if (rest && (ends || utf8_partial(text + ws->checked, rest) != rest))
		return fail(ws, WS_BAD_DATA, err, "a text message that is not UTF-8");
	return 0;
}

static int send_pong(struct ws *ws, struct err *err)
{
	struct err why;
	if (send_locked(ws, WSLAY_PONG, ws->control, ws->control_len, &why) < 0 &&
	    why.code == ERR_SLOW)
		return lost(ws, err, why.msg);
	return 0; /* a peer that left may have left its Close to read */
}

enum { GO_ON = 2 };

/* Acts on a whole frame. As ws_recv(), or GO_ON. */
static int frame_end(struct ws *ws, const struct wslay_frame_iocb *io, struct ws_message *ret,
		     struct err *err)
{
	ws->in_frame = false;
	if (io->opcode == WSLAY_CONNECTION_CLOSE)
		return take_close(ws, err);
	if (io->opcode == WSLAY_PING && send_pong(ws, err) < 0)
		return -1;
	if (wslay_is_ctrl_frame(io->opcode) || !io->fin)
		return GO_ON;
	*ret = (struct ws_message){ .opcode = (enum ws_opcode)ws->opcode,
				    .data = ws->message.len ? ws->message.data : "",
				    .len = ws->message.len };
	ws->delivered = true;
	return 1;
}

static int take_frame(struct ws *ws, const struct wslay_frame_iocb *io, struct ws_message *ret,
		      struct err *err)
{
	if (!ws->in_frame && frame_start(ws, io, err) < 0)
		return -1;
	ws->frame_left -= io->data_length;
	if (frame_data(ws, io, err) < 0)
		return -1;
	return ws->frame_left ? GO_ON : frame_end(ws, io, ret, err);
}

static void forget_message(struct ws *ws)
{
	if (ws->message.room > KEEP_ROOM)
		buf_done(&ws->message);
	ws->message.len = ws->checked = 0;
	ws->opcode = 0;
	ws->delivered = false;
}

int ws_recv(struct ws *ws, struct ws_message *ret, int timeout_ms, struct err *err)
{
	if (ws->state == CLOSED)
		return 0;
	if (ws->state != OPEN)
		return err_set(err, ERR_GONE, "the WebSocket is closed");
	if (ws->delivered)
		forget_message(ws);
	ws->deadline_ms = timeout_ms < 0 ? INT64_MAX : clock_ms() + timeout_ms;
	ws->late_reads = LATE_READS;
	ws->pending = false;
	for (;;) {
		struct wslay_frame_iocb io;
		ssize_t n = wslay_frame_recv(ws->frames, &io);
		if (n >= 0) {
			int r = take_frame(ws, &io, ret, err);
			ws->pending = r == 1;
			if (r != GO_ON)
				return r;
		} else if (n != WSLAY_ERR_WANT_READ) {
			return fail(ws, WS_PROTOCOL_ERROR, err, "a malformed frame");
		} else if (ws->input == INPUT_ENDED) {
			return lost(ws, err, "the WebSocket peer left");
		} else if (ws->input == INPUT_NONE && wait_input(ws, err) < 0) {
			return -1;
		}
	}
}

/* ---- the rest ---- */

struct ws *ws_new(int fd, enum ws_role role, const void *pending, size_t pending_len,
		  size_t max_message)
{
	struct ws *ws = xcalloc(1, sizeof *ws);
	struct wslay_frame_callbacks callbacks = { on_write, on_read, on_mask };
	if (wslay_frame_context_init(&ws->frames, &callbacks, ws) != 0)
		abort(); /* out of memory */
	ws->fd = fd;
	ws->role = role;
	ws->send_timeout_ms = SEND_TIMEOUT_MS;
	ws->heard_ms = clock_ms();
	buf_init(&ws->message, max_message);
	pthread_mutex_init(&ws->lock, NULL);
	if (pending_len) {
		ws->early = xmalloc(pending_len);
		memcpy(ws->early, pending, pending_len);
		ws->early_len = pending_len;
		ws->pending = true;
	}
	return ws;
}

void ws_free(struct ws *ws)
{
	if (!ws)
		return;
	if (ws->own_fd)
		close(ws->fd);
	wslay_frame_context_free(ws->frames);
	pthread_mutex_destroy(&ws->lock);
	buf_done(&ws->message);
	free(ws->early);
	free(ws);
}

/* Closing a socket with unread input resets the connection, which can take our Close back from a
 * peer that has not read it yet: so the input is read to its end. */
static void drain(int fd, int64_t until_ms)
{
	char scrap[4096];
	shutdown(fd, SHUT_WR);
	while (clock_ms() < until_ms) {
		ssize_t n = recv(fd, scrap, sizeof scrap, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
		if (n < 0)
			wait_until(fd, POLLIN, until_ms);
	}
}

void ws_close(struct ws *ws, int code, const char *reason)
{
	int64_t until_ms = clock_ms() + CLOSE_TIMEOUT_MS, left;
	struct ws_message dropped;
	/* A peer whose stream has ended may still read. */
	if ((ws->state == OPEN || ws->state == LOST) && !send_close(ws, code, reason ? reason : ""))
		(void)lost(ws, NULL, "");
	while (ws->state == OPEN && (left = until_ms - clock_ms()) > 0)
		(void)ws_recv(ws, &dropped, (int)left, NULL);
	if (ws->state == OPEN)
		(void)lost(ws, NULL, "");
	else if (ws->state != LOST)
		drain(ws->fd, until_ms);
}

void ws_set_max_message(struct ws *ws, size_t max_message)
{
	ws->message.cap = max_message;
}

void ws_own_fd(struct ws *ws)
{
	ws->own_fd = true;
}

void ws_set_send_timeout_ms(struct ws *ws, int timeout_ms)
{
	ws->send_timeout_ms = timeout_ms;
}

void ws_set_keepalive_ms(struct ws *ws, int interval_ms)
{
	ws->keepalive_ms = interval_ms;
}

bool ws_pending(const struct ws *ws)
{
	return ws->pending;
}

int ws_wait_ms(const struct ws *ws)
{
	int64_t left = keepalive_at(ws);
	if (left == INT64_MAX)
		return -1;
	left -= clock_ms();
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int ws_fd(const struct ws *ws)
{
	return ws->fd;
}

int ws_close_code(const struct ws *ws)
{
	return ws->close_code;
}

const char *ws_close_reason(const struct ws *ws)
{
	return ws->close_reason;
}

bool ws_valid_key(const char *key)
{
	auto_buf struct buf bytes = BUF(24);
	size_t len = key ? strlen(key) : 0;
	return len == 24 && !strcmp(key + 22, "==") && base64_decode(&bytes, key, len) == 0 &&
	       bytes.len == 16;
}

void ws_accept_key(const char *key, char ret[29])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	auto_free char *text = xasprintf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	if (!EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL))
		abort(); /* out of memory */
	auto_buf struct buf encoded = BUF(28);
	(void)base64_encode(&encoded, digest, len);
	snprintf(ret, 29, "%s", encoded.data);
}
