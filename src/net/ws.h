/* ws.h - a WebSocket (RFC 6455) on a connected stream socket, either role, without extensions.
 *
 * One thread owns a ws and calls everything here. Only ws_send(), ws_ping() and ws_fd() may also be
 * called by other threads, until ws_free(); messages of several senders never mix. To wake an owner
 * that waits, shutdown() the descriptor.
 *
 * Nothing is queued: a send returns when the socket has taken the whole message, and blocks while
 * the peer does not read. An owner that waits for other things too polls ws_fd() for input, at most
 * ws_wait_ms() long and only when ws_pending() is false, then calls ws_recv() with a timeout of 0.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct ws;

enum ws_role { WS_SERVER, WS_CLIENT };
enum ws_opcode { WS_TEXT = 1, WS_BINARY = 2 };

/* Codes of RFC 6455, 7.4.1. The two in parentheses are never sent. */
enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001,
	WS_PROTOCOL_ERROR = 1002,
	WS_UNSUPPORTED = 1003,
	WS_NO_CODE = 1005,  /* (the peer closed without a code) */
	WS_ABNORMAL = 1006, /* (the connection ended without a Close) */
	WS_BAD_DATA = 1007,
	WS_TOO_BIG = 1009,
	WS_INTERNAL_ERROR = 1011,
	WS_TRY_LATER = 1013,
};

struct ws_message {
	enum ws_opcode opcode;
	const char *data; /* followed by a NUL; text is valid UTF-8 */
	size_t len;
};

/* After the handshake on fd, which stays the caller's. pending is what was read from fd beyond the
 * handshake. A longer message than max_message ends the connection. Never NULL. */
struct ws *ws_new(int fd, enum ws_role role, const void *pending, size_t pending_len,
		  size_t max_message);
void ws_free(struct ws *ws); /* NULL is fine; says no goodbye, see ws_close() */

/* Makes ws_free() close the descriptor. */
void ws_own_fd(struct ws *ws);

/* No message that begins from now on may be longer. */
void ws_set_max_message(struct ws *ws, size_t max_message);

/* A send fails when the peer takes nothing for so long. 30 s at first. */
void ws_set_send_timeout_ms(struct ws *ws, int timeout_ms);

/* While ws_recv() waits: after interval_ms without input ask for a Pong, and after as long without
 * any answer give the peer up. 0, as at first, for never. */
void ws_set_keepalive_ms(struct ws *ws, int interval_ms);

/* Waits for a whole message; -1 for no timeout, 0 to take only what is there. Pings are answered
 * on the way, which can block like a send. ret is valid until the next call.
 * 1: a message. 0: the peer closed, and was answered.
 * -1 and ERR_SLOW: no message yet; the next call goes on. Any other code is final: ERR_GONE, the
 * connection is lost; ERR_BAD_REQUEST or ERR_TOO_LARGE, the peer broke a rule and was told so. */
int ws_recv(struct ws *ws, struct ws_message *ret, int timeout_ms, struct err *err);

/* Input may be buffered that a poll of the descriptor does not show. */
bool ws_pending(const struct ws *ws);

/* How long the owner may poll before it calls ws_recv() again for the keepalive; -1 for ever. */
int ws_wait_ms(const struct ws *ws);
int ws_fd(const struct ws *ws);

/* Sends one message as one frame, from where it lies. Text must be UTF-8. After a failure
 * (ERR_SLOW: the peer does not read; ERR_GONE) nothing can be sent any more. */
int ws_send(struct ws *ws, enum ws_opcode opcode, const void *data, size_t len, struct err *err);
int ws_ping(struct ws *ws, struct err *err);

/* Ends the connection in good order, whatever came before: sends Close if none was sent (reason may
 * be NULL; at most 123 bytes of it), waits for the peer's and for the end of its stream. Messages
 * that still come are dropped. Takes 2 s at most, once no other thread is sending. */
void ws_close(struct ws *ws, int code, const char *reason);

/* How it ended, once ws_recv() returned 0 or a final error: the peer's code, or ours when the peer
 * broke a rule, or WS_NO_CODE or WS_ABNORMAL. 0 while open. */
int ws_close_code(const struct ws *ws);
const char *ws_close_reason(const struct ws *ws); /* UTF-8, "" for none */

/* The handshake: whether a Sec-WebSocket-Key, NULL for none, is 16 bytes in base64; and what
 * Sec-WebSocket-Accept answers it. */
bool ws_valid_key(const char *key);
void ws_accept_key(const char *key, char ret[29]);
