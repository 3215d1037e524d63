/* ws.c - WebSocket frames between two ws, and between a ws and hand-made bytes. */
#include "net/ws.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "net/ws_client.h"
#include "tap.h"

#define MASK "\0\0\0\0" /* a key of zeros leaves the payload readable */

enum { MAX = 4 * 1024 * 1024, LONG_MS = 30000 /* for what comes for certain */ };

static struct err err;
static struct ws_message message;

/* ---- a ws at one end, bytes at the other ---- */

struct raw {
	int fd;
	struct ws *ws;
	int ws_fd;
};

static struct raw raw_open(enum ws_role role, size_t max_message)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	return (struct raw){ pair[0], ws_new(pair[1], role, NULL, 0, max_message), pair[1] };
}

static void raw_close(struct raw *raw)
{
	ws_free(raw->ws);
	close(raw->ws_fd);
	if (raw->fd >= 0)
		close(raw->fd);
}

static void put(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		abort();
}
#define PUT(fd, literal) put(fd, literal, sizeof(literal) - 1)

/* Reads one unmasked, small frame: its first byte, or -1. */
static int get(int fd, char *payload, size_t *ret_len)
{
	unsigned char head[2];
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	if (poll(&pfd, 1, LONG_MS) != 1 || recv(fd, head, 2, MSG_WAITALL) != 2 || head[1] > 125)
		return -1;
	if (head[1] && recv(fd, payload, head[1], MSG_WAITALL) != head[1])
		return -1;
	payload[head[1]] = 0;
	*ret_len = head[1];
	return head[0];
}

/* The code in the Close that comes next, 0 for one without, -1 for something else. */
static int get_close(int fd)
{
	char payload[128];
	size_t len;
	if (get(fd, payload, &len) != 0x88 || len == 1)
		return -1;
	return len ? (unsigned char)payload[0] << 8 | (unsigned char)payload[1] : 0;
}

static bool is_message(enum ws_opcode opcode, const char *text)
{
	return message.opcode == opcode && message.len == strlen(text) &&
	       !memcmp(message.data, text, message.len + 1);
}

static bool nothing_comes(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, 0) == 0;
}

static void test_keys(void)
{
	char accept[29];
	ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
	CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	CHECK(ws_valid_key("dGhlIHNhbXBsZSBub25jZQ=="));
	CHECK(!ws_valid_key(NULL));
	CHECK(!ws_valid_key(""));
	CHECK(!ws_valid_key("dGhlIHNhbXBsZSBub25jZQ"));
	CHECK(!ws_valid_key("dGhlIHNhbXBsZSBub25jZQ=="
			    "dGhlIHNhbXBsZSBub25jZQ=="));
	CHECK(!ws_valid_key("dGhlIHNhbXBsZSBub25jZTEy"));
	CHECK(!ws_valid_key("dGhlIHNhbXBsZSBub25jZQ  "));
	CHECK(!ws_valid_key("dGhl*HNhbXBsZSBub25jZQ=="));
}

static void test_fragments(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	char payload[128];
	size_t len;
	PUT(raw.fd, "\x01\x83" MASK "one"
		    "\x89\x82" MASK "hi"
		    "\x00\x80" MASK "\x8a\x81" MASK "?"
		    "\x00\x83" MASK "two"
		    "\x80\x82" MASK "\xc3\xa9"
		    "\x82\x80" MASK);
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == 1 &&
	      is_message(WS_TEXT, "onetwo\xc3\xa9"));
	CHECK(ws_pending(raw.ws));
	CHECK(get(raw.fd, payload, &len) == 0x8a && len == 2 && !memcmp(payload, "hi", 2));
	CHECK(ws_recv(raw.ws, &message, 0, &err) == 1 && is_message(WS_BINARY, ""));
	CHECK(ws_recv(raw.ws, &message, 0, &err) == -1 && err.code == ERR_SLOW);
	CHECK(!ws_pending(raw.ws));
	CHECK(nothing_comes(raw.fd));
	CHECK(ws_close_code(raw.ws) == 0);
	raw_close(&raw);
}

/* A frame that arrives byte by byte, and a mask that is none of zeros. */
static void test_trickle(void)
{
	static const char frame[] = "\x81\xfe\x00\x80\x01\x02\x03\x04";
	char bytes[sizeof frame - 1 + 128], want[129] = "";
	memcpy(bytes, frame, sizeof frame - 1);
	for (size_t i = 0; i < 128; i++) {
		want[i] = (char)('a' + i % 26);
		bytes[sizeof frame - 1 + i] = (char)(want[i] ^ (char)(i % 4 + 1));
	}
	struct raw raw = raw_open(WS_SERVER, MAX);
	int early = 0;
	for (size_t i = 0; i < sizeof bytes - 1; i++) {
		put(raw.fd, bytes + i, 1);
		early += ws_recv(raw.ws, &message, 0, &err) != -1 || err.code != ERR_SLOW;
	}
	CHECK(early == 0);
	put(raw.fd, bytes + sizeof bytes - 1, 1);
	CHECK(ws_recv(raw.ws, &message, 0, &err) == 1 && is_message(WS_TEXT, want));
	raw_close(&raw);
}

/* What was read with the handshake comes first. */
static void test_pending(void)
{
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	struct ws *ws = ws_new(pair[1], WS_SERVER, "\x81\x82" MASK "ab\x82\x82" MASK "c", 15, MAX);
	PUT(pair[0], "d");
	CHECK(ws_pending(ws));
	CHECK(ws_recv(ws, &message, 0, &err) == 1 && is_message(WS_TEXT, "ab"));
	CHECK(ws_recv(ws, &message, 0, &err) == 1 && is_message(WS_BINARY, "cd"));
	CHECK(ws_fd(ws) == pair[1]);
	ws_free(ws);
	close(pair[0]);
	close(pair[1]);
	ws_free(NULL);
}

/* ---- what a peer may not send ---- */

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct breach {
	const char *what, *bytes;
	size_t len;
	int code;
} breaches[] = {
	/* clang-format off */
	{ "reserved bit 1",     BYTES("\xc1\x81" MASK "x"), 1002 },
	{ "reserved bit 2",     BYTES("\xa2\x80" MASK), 1002 },
	{ "reserved bit 3",     BYTES("\x99\x80" MASK), 1002 },
	{ "opcode 3",           BYTES("\x83\x80" MASK), 1002 },
	{ "opcode 7",           BYTES("\x07\x80" MASK), 1002 },
	{ "opcode 11",          BYTES("\x8b\x80" MASK), 1002 },
	{ "opcode 15",          BYTES("\x8f\x80" MASK), 1002 },
	{ "unmasked",           BYTES("\x81\x01x"), 1002 },
	{ "unmasked, empty",    BYTES("\x81\x00"), 1002 },
	{ "unmasked ping",      BYTES("\x89\x00"), 1002 },
	{ "continued nothing",  BYTES("\x80\x80" MASK), 1002 },
	{ "continued the end",  BYTES("\x01\x81" MASK "a\x80\x80" MASK "\x80\x80" MASK), 1002 },
	{ "text in text",       BYTES("\x01\x81" MASK "a\x81\x81" MASK "b"), 1002 },
	{ "binary in text",     BYTES("\x01\x80" MASK "\x02\x80" MASK), 1002 },
	{ "half a ping",        BYTES("\x09\x80" MASK), 1002 },
	{ "long ping",          BYTES("\x89\xfe\x00\x7e" MASK "x"), 1002 },
	{ "long close",         BYTES("\x88\xff\0\0\0\0\0\1\0\0" MASK), 1002 },
	{ "wasteful 16 bits",   BYTES("\x82\xfe\x00\x7d" MASK "x"), 1002 },
	{ "wasteful 64 bits",   BYTES("\x82\xff\0\0\0\0\0\0\xff\xff" MASK "x"), 1002 },
	{ "negative length",    BYTES("\x82\xff\x80\0\0\0\0\1\0\0" MASK "x"), 1002 },
	{ "2^62 bytes",         BYTES("\x82\xff\x40\0\0\0\0\0\0\0" MASK "x"), 1009 },
	{ "64 KiB, 1000 allowed", BYTES("\x82\xff\0\0\0\0\0\1\0\0" MASK "x"), 1009 },
	{ "1001, 1000 allowed", BYTES("\x82\xfe\x03\xe9" MASK "x"), 1009 },
	{ "1 + 1000",           BYTES("\x02\x81" MASK "x\x80\xfe\x03\xe8" MASK "x"), 1009 },
	{ "half a close code",  BYTES("\x88\x81" MASK "\x03"), 1002 },
	{ "close 0",            BYTES("\x88\x82" MASK "\x00\x00"), 1002 },
	{ "close 999",          BYTES("\x88\x82" MASK "\x03\xe7"), 1002 },
	{ "close 1004",         BYTES("\x88\x82" MASK "\x03\xec"), 1002 },
	{ "close 1005",         BYTES("\x88\x82" MASK "\x03\xed"), 1002 },
	{ "close 1006",         BYTES("\x88\x82" MASK "\x03\xee"), 1002 },
	{ "close 1015",         BYTES("\x88\x82" MASK "\x03\xf7"), 1002 },
	{ "close 2999",         BYTES("\x88\x82" MASK "\x0b\xb7"), 1002 },
	{ "close 5000",         BYTES("\x88\x82" MASK "\x13\x88"), 1002 },
	{ "close 65535",        BYTES("\x88\x82" MASK "\xff\xff"), 1002 },
	{ "bad close reason",   BYTES("\x88\x83" MASK "\x03\xe8\xff"), 1007 },
	{ "cut close reason",   BYTES("\x88\x83" MASK "\x03\xe8\xc3"), 1007 },
	{ "bad text",           BYTES("\x81\x82" MASK "a\xff"), 1007 },
	{ "overlong text",      BYTES("\x81\x82" MASK "\xc0\x80"), 1007 },
	{ "surrogate",          BYTES("\x81\x83" MASK "\xed\xa0\x80"), 1007 },
	{ "cut text",           BYTES("\x81\x82" MASK "\xe2\x82"), 1007 },
	{ "bad over two",       BYTES("\x01\x81" MASK "\xf4\x80\x81" MASK "\x90"), 1007 },
	{ "bad before its end", BYTES("\x01\x82" MASK "a\xff"), 1007 },
	{ "bad within a frame", BYTES("\x01\xfe\x01\x00" MASK "\xe2("), 1007 },
	{ "cut at the end",     BYTES("\x01\x82" MASK "a\xc3\x80\x80" MASK), 1007 },
	/* clang-format on */
};

static void test_breaches(void)
{
	for (size_t i = 0; i < COUNT(breaches); i++) {
		const struct breach *b = &breaches[i];
		struct raw raw = raw_open(WS_SERVER, 1000);
		put(raw.fd, b->bytes, b->len);
		int got;
		while ((got = ws_recv(raw.ws, &message, LONG_MS, &err)) == 1)
			;
		bool ok = got == -1 && ws_close_code(raw.ws) == b->code;
		ok = ok && err.code == (b->code == 1009 ? ERR_TOO_LARGE : ERR_BAD_REQUEST);
		ok = ok && *ws_close_reason(raw.ws) && get_close(raw.fd) == b->code;
		ok = ok && ws_recv(raw.ws, &message, -1, &err) == -1 && err.code == ERR_GONE;
		ok = ok && ws_send(raw.ws, WS_TEXT, "x", 1, &err) == -1 && err.code == ERR_GONE;
		tap_check(ok, __FILE__, __LINE__, b->what);
		raw_close(&raw);
	}
	struct raw raw = raw_open(WS_CLIENT, MAX);
	PUT(raw.fd, "\x81\x81" MASK "x");
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == -1 && ws_close_code(raw.ws) == 1002);
	raw_close(&raw);
}

static void *send_much(void *arg)
{
	int fd = *(int *)arg;
	auto_free char *much = xcalloc(1, 1 << 20);
	(void)!send(fd, much, 1 << 20, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	return NULL;
}

/* What is done well before the time that a peer is given to answer Close, at one of some tries: other
 * work on the machine passes. */
static bool is_soon(int64_t (*close_one)(void))
{
	bool soon = false;
	for (int i = 0; i < 5 && !soon; i++)
		soon = close_one() < 1500;
	return soon;
}

/* After a breach the peer reads our Close, however much of its own is still on the way. */
static int64_t drain(void)
{
	struct raw raw = raw_open(WS_SERVER, 1000);
	pthread_t thread;
	PUT(raw.fd, "\x82\xff\0\0\0\0\0\x10\0\0" MASK);
	pthread_create(&thread, NULL, send_much, &raw.fd);
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == -1 && err.code == ERR_TOO_LARGE);
	int64_t start = clock_ms();
	ws_close(raw.ws, WS_NORMAL, NULL);
	int64_t took = clock_ms() - start;
	pthread_join(thread, NULL);
	CHECK(get_close(raw.fd) == 1009);
	char end;
	CHECK(recv(raw.fd, &end, 1, 0) == 0);
	raw_close(&raw);
	return took;
}

/* ---- closing ---- */

static void test_peer_closes(void)
{
	static const int codes[] = { 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010,
				     1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999 };
	for (size_t i = 0; i < COUNT(codes); i++) {
		struct raw raw = raw_open(WS_SERVER, MAX);
		char frame[] = "\x88\x85" MASK "??bye";
		frame[6] = (char)(codes[i] >> 8);
		frame[7] = (char)codes[i];
		put(raw.fd, frame, sizeof frame - 1);
		CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == 0 &&
		      ws_close_code(raw.ws) == codes[i]);
		CHECK_STR(ws_close_reason(raw.ws), "bye");
		CHECK(get_close(raw.fd) == codes[i]);
		raw_close(&raw);
	}
	struct raw raw = raw_open(WS_SERVER, MAX);
	PUT(raw.fd, "\x88\x80" MASK "\x81\x81" MASK "x");
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == 0 && ws_close_code(raw.ws) == WS_NO_CODE);
	CHECK(get_close(raw.fd) == 0);
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == 0);
	CHECK(ws_send(raw.ws, WS_TEXT, "x", 1, &err) == -1 && err.code == ERR_GONE);
	close(raw.fd);
	raw.fd = -1;
	ws_close(raw.ws, WS_NORMAL, NULL);
	raw_close(&raw);
}

static void *echo(void *arg)
{
	struct ws *ws = arg;
	struct ws_message got;
	while (ws_recv(ws, &got, LONG_MS, NULL) == 1)
		if (ws_send(ws, got.opcode, got.data, got.len, NULL) < 0)
			break;
	ws_close(ws, WS_INTERNAL_ERROR, NULL);
	return NULL;
}

static int64_t we_close(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	struct ws *client = ws_new(raw.fd, WS_CLIENT, NULL, 0, MAX);
	pthread_t thread;
	pthread_create(&thread, NULL, echo, client);
	CHECK(ws_send(raw.ws, WS_TEXT, "dropped", 7, &err) == 0);
	int64_t start = clock_ms();
	ws_close(raw.ws, 4321, "done \xe2\x82\xac");
	int64_t took = clock_ms() - start;
	pthread_join(thread, NULL);
	CHECK(ws_close_code(raw.ws) == 4321);
	CHECK(ws_close_code(client) == 4321);
	CHECK_STR(ws_close_reason(client), "done \xe2\x82\xac");
	ws_free(client);
	raw_close(&raw);
	return took;
}

/* A peer that neither answers Close nor stops sending. */
static void test_close_is_bounded(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	char payload[128], reason[201];
	size_t len;
	memset(reason, 'r', 121);
	snprintf(reason + 121, sizeof reason - 121, "\xe2\x82\xac more");
	PUT(raw.fd, "\x89\x80" MASK "\x81\x81" MASK "x\x01\x81" MASK "y");
	int64_t start = clock_ms();
	ws_close(raw.ws, WS_GOING_AWAY, reason);
	int64_t took = clock_ms() - start;
	CHECK(took >= 1900 && took < LONG_MS);
	CHECK(get(raw.fd, payload, &len) == 0x88 && len == 123); /* no half characters */
	CHECK(nothing_comes(raw.fd));                            /* no Pong behind a Close */
	CHECK(ws_close_code(raw.ws) == WS_ABNORMAL);
	raw_close(&raw);
}

static int64_t close_gone(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	PUT(raw.fd, "\x81\x85" MASK "he");
	close(raw.fd);
	raw.fd = -1;
	CHECK(ws_recv(raw.ws, &message, -1, &err) == -1 && err.code == ERR_GONE);
	CHECK(ws_close_code(raw.ws) == WS_ABNORMAL);
	CHECK(ws_send(raw.ws, WS_TEXT, "x", 1, &err) == -1 && err.code == ERR_GONE);
	CHECK(ws_ping(raw.ws, &err) == -1 && err.code == ERR_GONE);
	int64_t start = clock_ms();
	ws_close(raw.ws, WS_NORMAL, NULL);
	int64_t took = clock_ms() - start;
	raw_close(&raw);
	return took;
}

static void test_gone(void)
{
	CHECK(is_soon(close_gone));

	/* Its last words count, even where our answers cannot be sent any more. */
	struct raw raw = raw_open(WS_SERVER, MAX);
	PUT(raw.fd, "\x81\x81" MASK "x\x89\x80" MASK "\x88\x82" MASK "\x03\xe9");
	close(raw.fd);
	raw.fd = -1;
	CHECK(ws_recv(raw.ws, &message, -1, &err) == 1 && is_message(WS_TEXT, "x"));
	CHECK(ws_recv(raw.ws, &message, -1, &err) == 0 && ws_close_code(raw.ws) == WS_GOING_AWAY);
	raw_close(&raw);

	/* A half-closed peer cannot say Close any more: it is gone as well. */
	raw = raw_open(WS_SERVER, MAX);
	PUT(raw.fd, "\x81\x81" MASK "x");
	shutdown(raw.fd, SHUT_WR);
	CHECK(ws_recv(raw.ws, &message, -1, &err) == 1);
	CHECK(ws_send(raw.ws, WS_TEXT, "still", 5, &err) == 0);
	CHECK(ws_recv(raw.ws, &message, -1, &err) == -1 && err.code == ERR_GONE);
	raw_close(&raw);
}

/* ---- time ---- */

static void test_timeout(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	int64_t start = clock_ms();
	CHECK(ws_recv(raw.ws, &message, 100, &err) == -1 && err.code == ERR_SLOW);
	int64_t took = clock_ms() - start;
	CHECK(took >= 100 && took < LONG_MS);
	PUT(raw.fd, "\x81\x82" MASK "a");
	CHECK(ws_recv(raw.ws, &message, 50, &err) == -1 && err.code == ERR_SLOW);
	PUT(raw.fd, "b");
	CHECK(ws_recv(raw.ws, &message, LONG_MS, &err) == 1 && is_message(WS_TEXT, "ab"));
	raw_close(&raw);
}

static int64_t never_reads(enum ws_role role)
{
	struct raw raw = raw_open(role, MAX);
	auto_free char *much = xcalloc(1, MAX);
	ws_set_send_timeout_ms(raw.ws, 100);
	int64_t start = clock_ms();
	CHECK(ws_send(raw.ws, WS_BINARY, much, MAX, &err) == -1 && err.code == ERR_SLOW);
	int64_t took = clock_ms() - start;
	CHECK(took >= 100 && took < LONG_MS);
	CHECK(ws_send(raw.ws, WS_TEXT, "x", 1, &err) == -1 && err.code == ERR_GONE);
	start = clock_ms();
	ws_close(raw.ws, WS_NORMAL, NULL);
	took = clock_ms() - start;
	raw_close(&raw);
	return took;
}

static int64_t client_never_reads(void)
{
	return never_reads(WS_SERVER);
}

static int64_t server_never_reads(void)
{
	return never_reads(WS_CLIENT);
}

/* Pings without reading the answers: nothing is queued, and the time to wait has an end. */
static void test_ping_flood(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	ws_set_send_timeout_ms(raw.ws, 100);
	char ping[6 + 125] = "\x89\xfd";
	int got = 0, rounds = 0;
	while (rounds++ < 10000 && got != 1) {
		if (send(raw.fd, ping, sizeof ping, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		got = ws_recv(raw.ws, &message, 0, &err);
		if (got != -1 || err.code != ERR_SLOW)
			break;
	}
	CHECK(got == -1 && err.code == ERR_GONE && rounds < 10000);
	raw_close(&raw);
}

static void *flood(void *arg)
{
	auto_free char *bytes = xmalloc(6 * 1000);
	for (int i = 0; i < 1000; i++)
		memcpy(bytes + i * 6, "\x8a\x80" MASK, 6);
	while (send(*(int *)arg, bytes, 6 * 1000, MSG_NOSIGNAL) > 0)
		;
	return NULL;
}

/* Input that never stops and never is a message does not keep ws_recv() beyond its time. */
static void test_endless_input(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	pthread_t thread;
	pthread_create(&thread, NULL, flood, &raw.fd);
	int64_t start = clock_ms();
	CHECK(ws_recv(raw.ws, &message, 100, &err) == -1 && err.code == ERR_SLOW);
	CHECK(ws_recv(raw.ws, &message, 0, &err) == -1 && err.code == ERR_SLOW);
	CHECK(clock_ms() - start < LONG_MS);
	shutdown(raw.ws_fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	raw_close(&raw);
}

/* One ping in one and a half times `ms`, none in a time soon after its answer, and then the end. */
static bool keeps_alive(int ms)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	char payload[128];
	size_t len;
	bool good = ws_wait_ms(raw.ws) == -1;
	ws_set_keepalive_ms(raw.ws, ms);
	int wait = ws_wait_ms(raw.ws);
	good = good && wait > 0 && wait <= ms;
	good = good && ws_recv(raw.ws, &message, ms * 3 / 2, &err) == -1 && err.code == ERR_SLOW;
	good = good && get(raw.fd, payload, &len) == 0x89 && nothing_comes(raw.fd);
	PUT(raw.fd, "\x8a\x80" MASK);
	good = good && ws_recv(raw.ws, &message, ms / 2, &err) == -1 && err.code == ERR_SLOW;
	good = good && nothing_comes(raw.fd);
	int64_t start = clock_ms();
	good = good && ws_recv(raw.ws, &message, -1, &err) == -1 && err.code == ERR_GONE;
	good = good && clock_ms() - start < 10 * ms && get(raw.fd, payload, &len) == 0x89 &&
	       ws_close_code(raw.ws) == WS_ABNORMAL;
	raw_close(&raw);
	return good;
}

/* With more time where the machine has stood still for as long as a ping may take. */
static void test_keepalive(void)
{
	bool good = false;
	for (int ms = 100; ms <= 6400 && !good; ms *= 4)
		good = keeps_alive(ms);
	CHECK(good);
}

/* ---- two ws ---- */

static void test_echo(void)
{
	static const size_t sizes[] = { 0, 1, 125, 126, 127, 4096, 65535, 65536, 1 << 20, MAX };
	struct raw raw = raw_open(WS_SERVER, MAX);
	struct ws *client = ws_new(raw.fd, WS_CLIENT, NULL, 0, MAX);
	pthread_t thread;
	pthread_create(&thread, NULL, echo, raw.ws);
	auto_free char *data = xmalloc(MAX);
	for (size_t i = 0; i < MAX; i++)
		data[i] = (char)(i * 7 + i / 251);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		CHECK(ws_send(client, WS_BINARY, data, sizes[i], &err) == 0);
		CHECK(ws_recv(client, &message, LONG_MS, &err) == 1 && message.opcode == WS_BINARY);
		CHECK(message.len == sizes[i] && !memcmp(message.data, data, sizes[i]));
	}
	CHECK(ws_ping(client, &err) == 0);
	CHECK(ws_recv(client, &message, 50, &err) == -1 && err.code == ERR_SLOW);
	memset(data, 'a', MAX);
	CHECK(ws_send(client, WS_TEXT, data, MAX, &err) == 0);
	CHECK(ws_recv(client, &message, LONG_MS, &err) == 1 && message.opcode == WS_TEXT);
	CHECK(ws_send(client, WS_TEXT, "\xff", 1, &err) == 0);
	CHECK(ws_recv(client, &message, LONG_MS, &err) == 0);
	CHECK(ws_close_code(client) == WS_BAD_DATA);
	ws_close(client, WS_NORMAL, NULL);
	pthread_join(thread, NULL);
	ws_free(client);
	raw_close(&raw);
}

enum { SENDERS = 3, SENT_EACH = 200, SENT_LEN = 3000 };

static void *send_many(void *arg)
{
	char data[SENT_LEN];
	static int next = 'a';
	memset(data, __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED), sizeof data);
	for (int i = 0; i < SENT_EACH; i++)
		if (ws_send(arg, WS_BINARY, data, sizeof data, NULL) < 0 || ws_ping(arg, NULL) < 0)
			return NULL;
	return arg;
}

/* Several threads send while the owner receives. */
static void test_senders(void)
{
	struct raw raw = raw_open(WS_SERVER, MAX);
	struct ws *client = ws_new(raw.fd, WS_CLIENT, NULL, 0, MAX);
	pthread_t threads[SENDERS], echoer;
	pthread_create(&echoer, NULL, echo, raw.ws);
	for (int i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], NULL, send_many, client);
	int whole = 0, got = 0;
	while (got < SENDERS * SENT_EACH && ws_recv(client, &message, LONG_MS, &err) == 1) {
		whole += message.len == SENT_LEN && message.data[0] == message.data[SENT_LEN - 1];
		got++;
	}
	CHECK(whole == SENDERS * SENT_EACH);
	for (int i = 0; i < SENDERS; i++) {
		void *sent = NULL;
		pthread_join(threads[i], &sent);
		CHECK(sent == client);
	}
	ws_close(client, WS_NORMAL, NULL);
	pthread_join(echoer, NULL);
	CHECK(ws_close_code(raw.ws) == WS_NORMAL);
	ws_free(client);
	raw_close(&raw);
}

/* ---- the client's handshake ---- */

struct answer {
	int listener;
	const char
		*head; /* sent with %s replaced by the right Sec-WebSocket-Accept; NULL: silence */
	char request[2048];
};

static void *answer_one(void *arg)
{
	struct answer *answer = arg;
	auto_close int fd = accept(answer->listener, NULL, NULL);
	size_t len = 0;
	while (!strstr(answer->request, "\r\n\r\n")) {
		ssize_t n = recv(fd, answer->request + len, sizeof answer->request - 1 - len, 0);
		if (n <= 0)
			return NULL;
		len += (size_t)n;
		answer->request[len] = 0;
	}
	char key[25] = "", accept[29], byte;
	const char *at = strstr(answer->request, "Sec-WebSocket-Key: ");
	if (at)
		snprintf(key, sizeof key, "%s", at + strlen("Sec-WebSocket-Key: "));
	if (ws_valid_key(key) && answer->head) {
		ws_accept_key(key, accept);
		const char *slot = strchr(answer->head, '%');
		auto_free char *text =
			xasprintf("%.*s%s%s",
				  (int)(slot ? slot - answer->head : (long)strlen(answer->head)),
				  answer->head, slot ? accept : "", slot ? slot + 1 : "");
		put(fd, text, strlen(text));
	}
	if (answer->head)
		shutdown(fd, SHUT_WR);
	while (recv(fd, &byte, 1, 0) > 0)
		;
	return NULL;
}

#define UPGRADE "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"

static const struct handshake {
	const char *head;
	int code; /* 0: it succeeds, and one text message "hi" is behind it */
} handshakes[] = {
	{ UPGRADE "Sec-WebSocket-Accept: %\r\n\r\n\x81\x02hi", 0 },
	{ UPGRADE "Sec-WebSocket-Accept: %\r\nSec-WebSocket-Protocol: two\r\n\r\n\x81\x02hi", 0 },
	{ UPGRADE "Sec-WebSocket-Accept: %\r\nSec-WebSocket-Protocol: x\r\n\r\n", ERR_UNAVAILABLE },
	{ UPGRADE "Sec-WebSocket-Accept: %\r\nSec-WebSocket-Extensions: x\r\n\r\n",
	  ERR_UNAVAILABLE },
	{ UPGRADE "Sec-WebSocket-Accept: x%\r\n\r\n", ERR_UNAVAILABLE },
	{ UPGRADE "\r\n", ERR_UNAVAILABLE },
	{ "HTTP/1.1 101 S\r\nSec-WebSocket-Accept: %\r\n\r\n", ERR_UNAVAILABLE },
	{ "HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: upgrade\r\nSec-WebSocket-Accept: %\r\n\r\n",
	  ERR_UNAVAILABLE },
	{ "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", ERR_UNAVAILABLE },
	{ "SSH-2.0\r\n", ERR_UNAVAILABLE },
	{ "HTTP/1.1 101 Sw", ERR_UNAVAILABLE },
	{ "", ERR_UNAVAILABLE },
	{ NULL, ERR_SLOW },
};

static void test_connect(const char *url, int listener)
{
	static const char *const headers[] = { "Authorization: Bearer x",
					       "sec-websocket-protocol: one, two", NULL };
	for (size_t i = 0; i < COUNT(handshakes); i++) {
		const struct handshake *h = &handshakes[i];
		const struct ws_options options = { .timeout_ms = h->head ? LONG_MS : 300 };
		struct answer answer = { .listener = listener, .head = h->head };
		pthread_t thread;
		pthread_create(&thread, NULL, answer_one, &answer);
		err.code = 0;
		int64_t start = clock_ms();
		struct ws *ws = ws_connect(url, headers, &options, &err);
		bool ok = (ws != NULL) == !h->code && err.code == h->code &&
			  clock_ms() - start < LONG_MS / 2;
		if (ws)
			ok = ok && ws_recv(ws, &message, LONG_MS, &err) == 1 &&
			     is_message(WS_TEXT, "hi");
		tap_check(ok, __FILE__, __LINE__, h->head ? "handshake" : "no handshake");
		if (!ok)
			printf("# %s: %d %s\n", h->head ? h->head : "", err.code, err.msg);
		ws_free(ws);
		pthread_join(thread, NULL);
		CHECK(!strncmp(answer.request, "GET /a?b=c HTTP/1.1\r\nHost: ", 27));
		CHECK(strstr(answer.request, "\r\nAuthorization: Bearer x\r\n"));
	}
}

static void test_client(void)
{
	char url[128], dir[] = "/tmp/ws-XXXXXX";
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(listener, (struct sockaddr *)&in, len) && !listen(listener, 5) &&
	      !getsockname(listener, (struct sockaddr *)&in, &len));
	snprintf(url, sizeof url, "ws://127.0.0.1:%d/a?b=c", ntohs(in.sin_port));
	test_connect(url, listener);
	close(listener);
	CHECK(!ws_connect(url, NULL, NULL, &err) && err.code == ERR_UNAVAILABLE);

	struct sockaddr_un un = { .sun_family = AF_UNIX };
	CHECK(mkdtemp(dir) != NULL);
	snprintf(un.sun_path, sizeof un.sun_path, "%s/s", dir);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!bind(listener, (struct sockaddr *)&un, sizeof un) && !listen(listener, 5));
	snprintf(url, sizeof url, "ws+unix:%s:/a?b=c", un.sun_path);
	test_connect(url, listener);
	const char *const split[] = { "A: b\r\nC: d", NULL };
	CHECK(!ws_connect(url, split, NULL, &err) && err.code == ERR_INVALID);
	close(listener);
	CHECK(!ws_connect(url, NULL, NULL, &err) && err.code == ERR_UNAVAILABLE);
	unlink(un.sun_path);
	rmdir(dir);

	static const char *const bad[] = { "",
					   "http://localhost/",
					   "ws:",
					   "ws://",
					   "ws+unix:",
					   "ws+unix:s:/",
					   "ws+unix:/s:x",
					   "ws+unix:/s:/a b",
					   "ws://localhost/a b" };
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!ws_connect(bad[i], NULL, NULL, &err) && err.code == ERR_INVALID);
}

int main(void)
{
	test_keys();
	test_fragments();
	test_trickle();
	test_pending();
	test_breaches();
	CHECK(is_soon(drain));
	test_peer_closes();
	CHECK(is_soon(we_close));
	test_close_is_bounded();
	test_gone();
	test_timeout();
	CHECK(is_soon(client_never_reads));
	CHECK(is_soon(server_never_reads));
	test_ping_flood();
	test_endless_input();
	test_keepalive();
	test_echo();
	test_senders();
	test_client();
	return tap_done();
}
