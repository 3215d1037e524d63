/* Bytes as HTTP messages, in pieces of the size that the first byte says: heads from memory, then
 * the same from a socket with the bodies. Both must find the same messages. */
#include "net/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const struct http_limits limits = { .head = 2000, .idle_ms = 1000 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *text)
{
	must(text && !strpbrk(text, "\r\n"));
	size_t len = strlen(text);
	must(!len || (text[len - 1] != ' ' && text[len - 1] != '\t'));
}

/* A head as text; what it says must be what http.h promises. */
static void check_head(const struct http *http, struct buf *to)
{
	const struct http_head *head = &http->head;
	must(head->size <= limits.head && head->count <= HTTP_HEADERS_MAX && head->length >= -1);
	must(head->minor == 0 || head->minor == 1);
	size_t lengths = http_header_count(head, "content-length");
	size_t codings = http_header_count(head, "transfer-encoding");
	must(lengths + codings <= 1 && head->chunked == (codings == 1));
	if (http->side == HTTP_REQUESTS) {
		must(head->method && *head->method && *head->target && !strchr(head->target, ' '));
		check_text(head->target);
		must(http_header_count(head, "host") == 1 ||
		     (!head->minor && !http_header(head, "host")));
		must(head->length >= 0 || head->chunked);
		must(head->length == 0 || lengths || head->chunked);
		buf_printf(to, "%s %s ", head->method, head->target);
	}
	buf_printf(to, "%d %d %lld", head->status, head->minor, (long long)head->length);
	for (size_t i = 0; i < head->count; i++) {
		check_text(head->headers[i].name);
		check_text(head->headers[i].value);
		must(*head->headers[i].name && !strpbrk(head->headers[i].name, " \t:"));
		buf_printf(to, "|%s=%s", head->headers[i].name, head->headers[i].value);
	}
	buf_str(to, "\n");
}

/* The first head, from memory. */
static int feed(enum http_side side, const uint8_t *data, size_t size, size_t piece, struct buf *to)
{
	struct http http;
	int got = 0;
	http_init(&http, -1, side, &limits);
	for (size_t at = 0; at < size && !got; at += piece) {
		size_t n = piece < size - at ? piece : size - at;
		auto_free char *copy = xmalloc(n);
		memcpy(copy, data + at, n);
		got = http_feed(&http, copy, n, NULL);
	}
	if (got == 1)
		check_head(&http, to);
	http_done(&http);
	return got;
}

/* Every message, from a socket. */
static int receive(enum http_side side, const uint8_t *data, size_t size, size_t room,
		   struct buf *to)
{
	int pair[2], got;
	struct http http;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -2;
	(void)!send(pair[0], data, size, MSG_DONTWAIT);
	shutdown(pair[0], SHUT_WR);
	http_init(&http, pair[1], side, &limits);
	auto_free char *body = xmalloc(room);
	int first = -2;
	while ((got = http_read_head(&http, NULL)) == 1) {
		size_t before = to->len;
		check_head(&http, to);
		auto_free char *head = xstrndup(to->data + before, to->len - before);
		ssize_t n;
		int64_t sum = 0;
		while ((n = http_read_body(&http, body, room, NULL)) > 0)
			sum += n;
		size_t after = to->len;
		check_head(&http, to); /* still there */
		must(to->len - after == strlen(head) &&
		     !memcmp(to->data + after, head, strlen(head)));
		to->len = after;
		/* How much comes before an error is a matter of the room. */
		buf_printf(to, "%lld\n", n < 0 ? -1ll : (long long)sum);
		first = 1;
		if (n < 0)
			break;
		must(http.head.length < 0 || sum == http.head.length);
		http_next(&http);
	}
	first = first == 1 ? 1 : got;
	http_done(&http);
	close(pair[0]);
	close(pair[1]);
	return first;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	if (size < 2)
		return 0;
	enum http_side side = input[0] & 1 ? HTTP_RESPONSES : HTTP_REQUESTS;
	size_t piece = 1 + (input[0] >> 1);
	auto_buf struct buf whole = BUF(1 << 22), pieces = BUF(1 << 22), big = BUF(1 << 22),
			    small = BUF(1 << 22);
	int got = feed(side, input + 1, size - 1, size, &whole);
	must(feed(side, input + 1, size - 1, piece, &pieces) == got || got < 0);
	if (got == 1)
		must(whole.len == pieces.len && !memcmp(whole.data, pieces.data, whole.len));
	int all = receive(side, input + 1, size - 1, 65536, &big);
	must((all == 1) == (got == 1));
	receive(side, input + 1, size - 1, piece, &small);
	must(big.len == small.len && (!big.len || !memcmp(big.data, small.data, big.len)));
	return 0;
}
