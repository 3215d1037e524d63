#include "net/http.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

/* Nothing is waited for: what is not there yet is ERR_SLOW, and the next call goes on from there. */
static const struct http_limits limits = { 65536, .idle_ms = 1, .head_ms = 0,
					   .body_ms = -1000000000 };

/* ---- heads ---- */

/* All that a head says, as text. */
static char *head_text(const struct http_head *head)
{
	struct buf text = BUF(1 << 20);
	buf_printf(&text, "%s %s %d 1.%d%s%s%s%s %lld", head->method ? head->method : "-",
		   head->target ? head->target : "-", head->status, head->minor,
		   head->keep_alive ? " keep" : "", head->upgrade ? " upgrade" : "",
		   head->chunked ? " chunked" : "", head->expect_continue ? " expect" : "",
		   (long long)head->length);
	for (size_t i = 0; i < head->count; i++)
		buf_printf(&text, "|%s=%s", head->headers[i].name, head->headers[i].value);
	return text.data;
}

/* Feeds a head in pieces of a size; its text, or "error STATUS", or "more". Memory of its own for
 * each piece lets a sanitizer see a step beyond it. */
static char *feed(enum http_side side, const char *data, size_t len, size_t first, size_t piece)
{
	struct http http;
	struct err err = { 0 };
	int got = 0;
	http_init(&http, -1, side, &limits);
	for (size_t at = 0; at < len && !got;) {
		size_t n = !at && first ? first : piece;
		n = n < len - at ? n : len - at;
		char *copy = xmalloc(n);
		memcpy(copy, data + at, n);
		got = http_feed(&http, copy, n, &err);
		free(copy);
		at += n;
	}
	char *text = got > 0   ? head_text(&http.head)
		     : got < 0 ? xasprintf("error %d", err_status(err.code))
			       : xstrdup("more");
	http_done(&http);
	return text;
}

static void check_feed(enum http_side side, const char *data, size_t len, const char *want)
{
	char *whole = feed(side, data, len, 0, len);
	if (!CHECK_STR(whole, want))
		printf("# for %.200s\n", data);
	char *bytes = feed(side, data, len, 0, 1);
	CHECK_STR(bytes, want);
	size_t differ = 0;
	for (size_t cut = 1; cut < len; cut++) {
		char *text = feed(side, data, len, cut, len);
		differ += strcmp(text, want) != 0;
		free(text);
	}
	CHECK(differ == 0);
	free(whole);
	free(bytes);
}

static void request_heads(void)
{
	static const char *const rows[][2] = {
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 0 1.1 keep 0|Host=a" },
		{ "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 0 1.1 keep 0|Host=a" },
		{ "GET /a%20b?c=d&e#f HTTP/1.1\r\nhost:a\r\n\r\n",
		  "GET /a%20b?c=d&e#f 0 1.1 keep 0|host=a" },
		{ "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * 0 1.1 keep 0|Host=a" },
		{ "GET http://b/c HTTP/1.1\r\nHost: b\r\n\r\n",
		  "GET http://b/c 0 1.1 keep 0|Host=b" },
		{ "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a:80 0 1.1 keep 0|Host=a" },
		{ "GET / HTTP/1.0\r\n\r\n", "GET / 0 1.0 0" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		  "GET / 0 1.0 keep 0|Connection=keep-alive" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		  "GET / 0 1.1 0|Host=a|Connection=close" },
		{ "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		  "POST / 0 1.1 keep 0|Host=a|Content-Length=0" },
		{ "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n",
		  "PUT / 0 1.1 keep 9223372036854775807|Host=a|Content-Length=9223372036854775807" },
		{ "DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
		  "DELETE / 0 1.1 keep chunked -1|Host=a|Transfer-Encoding=Chunked" },
		{ "PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n",
		  "PATCH / 0 1.1 keep expect 5|Host=a|Content-Length=5|Expect=100-Continue" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: x, Upgrade\r\n\r\n",
		  "GET / 0 1.1 keep upgrade 0|Host=a|Upgrade=websocket|Connection=x, Upgrade" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
		  "GET / 0 1.1 keep 0|Host=a|Upgrade=websocket" },
		{ "GET / HTTP/1.1\r\nHost:  a \t \r\nX:\r\nY: \t\r\nZ:a  b\tc  \r\n\r\n",
		  "GET / 0 1.1 keep 0|Host=a|X=|Y=|Z=a  b\tc" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\xff\r\n\r\n",
		  "GET / 0 1.1 keep 0|Host=a|X=\xc3\xa9\xff" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n",
		  "GET / 0 1.1 keep 0|Host=a|X=1|x=2" },
		{ "GET / HTTP/1.1\r\nHost: a\r\n", "more" },
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r", "more" },
		{ "GET", "more" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_feed(HTTP_REQUESTS, rows[i][0], strlen(rows[i][0]), rows[i][1]);
}

#define REFUSED(text, want) check_feed(HTTP_REQUESTS, text, sizeof text - 1, "error " want)

static void refused_requests(void)
{
	REFUSED("GET / HTTP/1.1\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551614\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
		"400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n", "400");
	REFUSED("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\tfolded\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\nHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\n\n", "400");
	REFUSED("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\rX: 1\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\rHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHo st: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\n: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", "400");
	REFUSED("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / \r\nHost: a\r\n\r\n", "400");
	REFUSED("get / HTTP/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("NOSUCH / HTTP/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505");
	REFUSED("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "400");
	REFUSED("GET / ICY/1.1\r\nHost: a\r\n\r\n", "400");
	REFUSED("\x16\x03\x01\x02", "400"); /* TLS where none is spoken */
}

static void responses(void)
{
	static const char *const rows[][2] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
		  "- - 200 1.1 keep 3|Content-Length=3" },
		{ "HTTP/1.1 200 OK\r\n\r\n", "- - 200 1.1 -1" },
		{ "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		  "- - 200 1.1 keep 0|Content-Length=0" },
		{ "HTTP/1.0 404 Not Found\r\n\r\n", "- - 404 1.0 -1" },
		{ "HTTP/1.1 204 No Content\r\n\r\n", "- - 204 1.1 keep 0" },
		{ "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
		  "- - 304 1.1 keep 0|Content-Length=77" },
		{ "HTTP/1.1 100 Continue\r\n\r\n", "- - 100 1.1 keep 0" },
		{ "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		  "- - 101 1.1 keep upgrade 0|Upgrade=x|Connection=upgrade" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		  "- - 200 1.1 keep chunked -1|Transfer-Encoding=chunked" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  "error 400" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", "error 400" },
		{ "HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\n", "error 400" },
		{ "HTTP/1.1 99999 OK\r\n\r\n", "error 400" },
		{ "SSH-2.0-x\r\n", "error 400" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_feed(HTTP_RESPONSES, rows[i][0], strlen(rows[i][0]), rows[i][1]);
}

/* ---- limits of a head ---- */

/* A request of exactly len bytes. */
static char *head_of(size_t len)
{
	static const char first[] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
	char *text = xcalloc(1, len + 1);
	memset(text, 'x', len);
	memcpy(text, first, sizeof first - 1);
	memcpy(text + len - 4, "\r\n\r\n", 4);
	return text;
}

static void size_limit(void)
{
	struct http http;
	struct err err = { 0 };
	static const size_t sizes[] = { 65535, 65536, 65537, 65538, 100000 };
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char *text = head_of(sizes[i]);
		for (size_t piece = 1000; piece <= 200000; piece *= 200) {
			char *got = feed(HTTP_REQUESTS, text, sizes[i], 0, piece);
			CHECK(sizes[i] > 65536 ? !strcmp(got, "error 431")
					       : !strncmp(got, "GET / 0 1.1", 11));
			free(got);
		}
		free(text);
	}
	/* What follows a head does not count. */
	auto_buf struct buf text = BUF(1 << 20);
	buf_str(&text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
	for (int i = 0; i < 100000; i++)
		buf_str(&text, "x");
	http_init(&http, -1, HTTP_REQUESTS, &limits);
	CHECK(http_feed(&http, text.data, text.len, &err) == 1);
	http_done(&http);
}

static void header_limit(void)
{
	for (int count = 99; count <= 102; count++) {
		auto_buf struct buf text = BUF(1 << 20);
		buf_str(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
		for (int i = 1; i < count; i++)
			buf_printf(&text, "X-%d: %d\r\n", i, i);
		buf_str(&text, "\r\n");
		char *whole = feed(HTTP_REQUESTS, text.data, text.len, 0, text.len);
		char *bytes = feed(HTTP_REQUESTS, text.data, text.len, 0, 1);
		CHECK_STR(bytes, whole);
		CHECK(count > 100 ? !strcmp(whole, "error 431")
				  : strstr(whole, "|X-98=98") != NULL);
		free(whole);
		free(bytes);
	}
}

static void lookups(void)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\naccept: y\r\n\r\n";
	struct http http;
	http_init(&http, -1, HTTP_REQUESTS, &limits);
	CHECK(http_feed(&http, text, sizeof text - 1, NULL) == 1);
	CHECK(http.head.size == sizeof text - 1);
	CHECK_STR(http_header(&http.head, "ACCEPT"), "x");
	CHECK(http_header_count(&http.head, "Accept") == 2);
	CHECK(!http_header(&http.head, "acce") && http_header_count(&http.head, "none") == 0);
	http_done(&http);
	CHECK(http_has_token("a, Upgrade ,b", "upgrade") && http_has_token("upgrade", "UPGRADE"));
	CHECK(http_has_token(",,\tupgrade\t,", "upgrade") && http_has_token("a,b", "b"));
	CHECK(!http_has_token("upgrades", "upgrade") && !http_has_token("x upgrade", "upgrade"));
	CHECK(!http_has_token("", "a") && !http_has_token(NULL, "a") &&
	      !http_has_token(" , ", "a"));
}

/* ---- many messages, from memory ---- */

static void pipelined_heads(void)
{
	auto_buf struct buf text = BUF(1 << 20);
	for (int i = 0; i < 500; i++)
		buf_printf(&text, "GET /%d HTTP/1.1\r\nHost: a\r\nX-%d: %d\r\n\r\n", i, i, i);
	static const size_t pieces[] = { 1, 7, 1000, 1 << 20 };
	for (size_t p = 0; p < COUNT(pieces); p++) {
		struct http http;
		int found = 0;
		bool right = true;
		http_init(&http, -1, HTTP_REQUESTS, &limits);
		for (size_t at = 0; at < text.len; at += pieces[p]) {
			size_t n = pieces[p] < text.len - at ? pieces[p] : text.len - at;
			int got = http_feed(&http, text.data + at, n, NULL);
			for (; got == 1; got = http_feed(&http, NULL, 0, NULL), found++) {
				char want[40];
				snprintf(want, sizeof want, "/%d", found);
				right = right && !strcmp(http.head.target, want) &&
					http.head.count == 2 &&
					!strcmp(http.head.headers[1].value, want + 1);
				http_next(&http);
			}
			right = right && got == 0;
		}
		CHECK(right && found == 500);
		http_done(&http);
	}
}

/* ---- bodies, from a socket ---- */

struct stream {
	int fd[2];
	struct http http;
	struct err err;
};

static void stream_open(struct stream *s, enum http_side side, const struct http_limits *with)
{
	*s = (struct stream){ 0 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->fd) < 0)
		abort();
	http_init(&s->http, s->fd[1], side, with);
}

static void stream_send(struct stream *s, const void *data, size_t len)
{
	if (len && write(s->fd[0], data, len) != (ssize_t)len)
		abort();
}

static void stream_end(struct stream *s)
{
	shutdown(s->fd[0], SHUT_WR);
}

static void stream_done(struct stream *s)
{
	http_done(&s->http);
	close(s->fd[0]);
	close(s->fd[1]);
}

/* Adds what there is of the body to `to`: 1 at its end, 0 when more must come, -1 on error. */
static int read_some(struct stream *s, size_t room, struct buf *to)
{
	char *piece = xmalloc(room);
	ssize_t n;
	while ((n = http_read_body(&s->http, piece, room, &s->err)) > 0)
		buf_add(to, piece, (size_t)n);
	free(piece);
	return n == 0 ? 1 : s->err.code == ERR_SLOW ? 0 : -1;
}

#define CHUNKED_HEAD \
	"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Last: kept\r\n\r\n"
#define NEXT_HEAD "GET /next HTTP/1.1\r\nHost: b\r\n\r\n"

static bool head_kept(const struct http *http)
{
	return !strcmp(http->head.target, "/c") && http->head.count == 3 &&
	       !strcmp(http->head.headers[0].name, "Host") &&
	       !strcmp(http->head.headers[0].value, "a") &&
	       !strcmp(http->head.headers[2].name, "X-Last") &&
	       !strcmp(http->head.headers[2].value, "kept");
}

/* A chunked message that comes in two parts, and another one behind it: the body, or NULL. */
static char *read_cut(const char *text, size_t len, size_t cut, size_t room)
{
	struct stream s;
	struct buf body = BUF(1 << 20);
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, text, cut);
	int got = http_read_head(&s.http, &s.err);
	bool early = got == 1;
	int end = early ? read_some(&s, room, &body) : 0;
	bool kept = !early || head_kept(&s.http);
	stream_send(&s, text + cut, len - cut);
	if (!early)
		got = http_read_head(&s.http, &s.err);
	if (end == 0)
		end = read_some(&s, room, &body);
	kept = kept && got == 1 && head_kept(&s.http);
	http_next(&s.http);
	stream_end(&s);
	bool next = end == 1 && http_read_head(&s.http, &s.err) == 1 &&
		    !strcmp(s.http.head.target, "/next") && s.http.head.count == 1 &&
		    !strcmp(s.http.head.headers[0].value, "b");
	if (next)
		http_next(&s.http);
	next = next && http_read_head(&s.http, &s.err) == 0;
	stream_done(&s);
	if (kept && next)
		return body.data ? body.data : xstrdup("");
	buf_done(&body);
	return NULL;
}

static void chunked(void)
{
	static const char *const rows[][2] = {
		{ "0\r\n\r\n", "" },
		{ "5\r\nhello\r\n0\r\n\r\n", "hello" },
		{ "1\r\na\r\n2\r\nbc\r\n0003\r\ndef\r\n00\r\n\r\n", "abcdef" },
		{ "A\r\n0123456789\r\n8\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
		  "0123456789\r\n\r\n\r\n\r\n" },
		{ "a;x=y\r\n0123456789\r\n0;last\r\n\r\n", "0123456789" },
		/* A length among the trailers is ignored by llhttp 8 and refused by 9. */
		{ "3\r\nabc\r\n0\r\nTrailer: x\r\nHost: evil\r\nX-Length: 5\r\n\r\n", "abc" },
	};
	static const size_t rooms[] = { 1, 3, 65536 };
	for (size_t i = 0; i < COUNT(rows); i++) {
		auto_buf struct buf text = BUF(10000);
		buf_printf(&text, "%s%s%s", CHUNKED_HEAD, rows[i][0], NEXT_HEAD);
		for (size_t r = 0; r < COUNT(rooms); r++) {
			size_t wrong = 0;
			for (size_t cut = 1; cut < text.len; cut++) {
				char *body = read_cut(text.data, text.len, cut, rooms[r]);
				wrong += !body || strcmp(body, rows[i][1]) != 0;
				free(body);
			}
			if (!CHECK(wrong == 0))
				printf("# for '%s'\n", rows[i][0]);
		}
	}
}

static void refused_chunks(void)
{
	static const char *const rows[] = {
		"x\r\n",
		"-1\r\n",
		"+1\r\na\r\n",
		" 1\r\na\r\n",
		"0x1\r\na\r\n",
		"1 \r\na\r\n",
		"1\na\r\n",
		"1\r\na\n",
		"1\r\nab\r\n",
		"\r\n",
		"1\r\nab",
		"5\rhello\r\n",
		"fffffffffffffffff\r\n",
		"10000000000000000\r\n",
		"0\r\nX\r\n\r\n",
		"0\r\n\n",
		"0\n\r\n",
		"1;a\nb\r\nc\r\n",
		"0\r\nX: 1\n\r\n",
		"0\r\nX: 1\r\n y\r\n\r\n",
		"0\r\nX: \x01\r\n\r\n",
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t room = 1; room <= 65536; room *= 65536) {
			struct stream s;
			auto_buf struct buf body = BUF(1 << 20);
			stream_open(&s, HTTP_REQUESTS, &limits);
			stream_send(&s, CHUNKED_HEAD, strlen(CHUNKED_HEAD));
			stream_send(&s, rows[i], strlen(rows[i]));
			bool head = http_read_head(&s.http, &s.err) == 1;
			if (!CHECK(head && read_some(&s, room, &body) == -1 &&
				   s.err.code == ERR_BAD_REQUEST))
				printf("# for '%s', %zu: %s\n", rows[i], room, s.err.msg);
			stream_done(&s);
		}
}

static void large_chunks(void)
{
	enum { SIZE = 3 << 20 };
	struct stream s;
	auto_buf struct buf body = BUF(SIZE), head = BUF(1000);
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, CHUNKED_HEAD, strlen(CHUNKED_HEAD));
	bool right = http_read_head(&s.http, &s.err) == 1;
	char piece[1000];
	size_t sent = 0;
	for (size_t i = 0; i < 3000; i++) {
		size_t len = i % 1000 + 1;
		for (size_t k = 0; k < len; k++)
			piece[k] = (char)(sent++ % 251);
		head.len = 0;
		buf_printf(&head, "%zx\r\n", len);
		stream_send(&s, head.data, head.len);
		stream_send(&s, piece, len);
		stream_send(&s, "\r\n", 2);
		right = right && read_some(&s, i % 7 ? 65536 : 77, &body) == 0 &&
			head_kept(&s.http);
	}
	stream_send(&s, "0\r\n\r\n", 5);
	CHECK(right && read_some(&s, 65536, &body) == 1 && body.len == sent);
	for (size_t i = 0; i < body.len; i++)
		right = right && body.data[i] == (char)(i % 251);
	CHECK(right);
	http_next(&s.http);
	CHECK(s.http.room <= 16384); /* what a body needed is given back */
	stream_done(&s);
}

/* Framing without data is no way to keep a connection busy. */
static void framing_limit(void)
{
	struct stream s;
	auto_buf struct buf body = BUF(1000), text = BUF(1 << 20);
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, CHUNKED_HEAD "1;", strlen(CHUNKED_HEAD) + 2);
	CHECK(http_read_head(&s.http, &s.err) == 1);
	for (int i = 0; i < 70000; i++)
		buf_str(&text, "x");
	stream_send(&s, text.data, text.len);
	CHECK(read_some(&s, 1000, &body) == -1 && s.err.code == ERR_BAD_REQUEST);
	stream_done(&s);
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, CHUNKED_HEAD "0\r\n", strlen(CHUNKED_HEAD) + 3);
	CHECK(http_read_head(&s.http, &s.err) == 1);
	text.len = 0;
	for (int i = 0; i < 10000; i++)
		buf_printf(&text, "X-%d: y\r\n", i);
	stream_send(&s, text.data, text.len);
	CHECK(read_some(&s, 1000, &body) == -1 && s.err.code == ERR_BAD_REQUEST);
	stream_done(&s);
}

static void fixed(void)
{
	static const char text[] =
		"POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nhello\0world\n" NEXT_HEAD;
	static const size_t rooms[] = { 1, 5, 65536 };
	for (size_t r = 0; r < COUNT(rooms); r++) {
		size_t wrong = 0;
		for (size_t cut = 1; cut < sizeof text - 1; cut++) {
			struct stream s;
			auto_buf struct buf body = BUF(1000);
			stream_open(&s, HTTP_REQUESTS, &limits);
			stream_send(&s, text, cut);
			int head = http_read_head(&s.http, &s.err);
			if (head == 1)
				(void)read_some(&s, rooms[r], &body);
			stream_send(&s, text + cut, sizeof text - 1 - cut);
			if (head != 1)
				head = http_read_head(&s.http, &s.err);
			bool right = head == 1 && s.http.head.length == 12 &&
				     read_some(&s, rooms[r], &body) == 1 && body.len == 12 &&
				     !memcmp(body.data, "hello\0world\n", 12);
			http_next(&s.http);
			wrong += !right || http_read_head(&s.http, &s.err) != 1 ||
				 strcmp(s.http.head.target, "/next") != 0;
			stream_done(&s);
		}
		CHECK(wrong == 0);
	}
}

static void endings(void)
{
	struct stream s;
	auto_buf struct buf body = BUF(1000);
	stream_open(&s, HTTP_REQUESTS, &limits);
	CHECK(http_read_head(&s.http, &s.err) == 0); /* idle for too long */
	stream_end(&s);
	CHECK(http_read_head(&s.http, &s.err) == 0);
	stream_done(&s);
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, "GET / HT", 8);
	CHECK(http_read_head(&s.http, &s.err) == -1 && s.err.code == ERR_SLOW);
	stream_end(&s);
	CHECK(http_read_head(&s.http, &s.err) == -1 && s.err.code == ERR_GONE);
	stream_done(&s);
	static const char *const cut[] = {
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", CHUNKED_HEAD,
		CHUNKED_HEAD "5\r\nabc", CHUNKED_HEAD "3\r\nabc\r\n",
		CHUNKED_HEAD "3\r\nabc\r\n0\r\n"
	};
	for (size_t i = 0; i < COUNT(cut); i++) {
		stream_open(&s, HTTP_REQUESTS, &limits);
		stream_send(&s, cut[i], strlen(cut[i]));
		CHECK(http_read_head(&s.http, &s.err) == 1);
		CHECK(read_some(&s, 100, &body) == 0 && s.err.code == ERR_SLOW);
		stream_end(&s);
		CHECK(read_some(&s, 100, &body) == -1 && s.err.code == ERR_GONE);
		stream_done(&s);
	}
	stream_open(&s, HTTP_REQUESTS, &limits);
	stream_send(&s, NEXT_HEAD NEXT_HEAD, 2 * strlen(NEXT_HEAD));
	CHECK(http_read_head(&s.http, &s.err) == 1);
	char byte;
	CHECK(http_read_body(&s.http, &byte, 1, &s.err) == 0); /* and not a byte of the next one */
	http_next(&s.http);
	CHECK(http_read_head(&s.http, &s.err) == 1);
	stream_done(&s);
}

static void response_bodies(void)
{
	struct stream s;
	auto_buf struct buf body = BUF(1000);
	stream_open(&s, HTTP_RESPONSES, &limits);
	stream_send(&s, "HTTP/1.1 200 OK\r\nServer: x\r\n\r\nabc", 33);
	CHECK(http_read_head(&s.http, &s.err) == 1 && s.http.head.length == -1 &&
	      !s.http.head.keep_alive);
	CHECK(read_some(&s, 2, &body) == 0);
	stream_send(&s, "def", 3);
	CHECK(read_some(&s, 2, &body) == 0);
	stream_end(&s);
	CHECK(read_some(&s, 2, &body) == 1);
	CHECK_STR(body.data, "abcdef");
	stream_done(&s);
	/* 100 Continue, then the answer; then ones that have no body whatever their headers say. */
	static const char text[] =
		"HTTP/1.1 100 Continue\r\n\r\n"
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
		"HTTP/1.1 204 No Content\r\n\r\n"
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend";
	static const struct {
		int status;
		const char *body;
	} want[] = { { 100, "" }, { 200, "ok" }, { 204, "" }, { 304, "" }, { 200, "end" } };
	stream_open(&s, HTTP_RESPONSES, &limits);
	stream_send(&s, text, sizeof text - 1);
	for (size_t i = 0; i < COUNT(want); i++) {
		body.len = 0;
		buf_str(&body, "");
		CHECK(http_read_head(&s.http, &s.err) == 1 && s.http.head.status == want[i].status);
		CHECK(read_some(&s, 100, &body) == 1);
		CHECK_STR(body.data, want[i].body);
		http_next(&s.http);
	}
	stream_end(&s);
	CHECK(http_read_head(&s.http, &s.err) == 0);
	stream_done(&s);
}

int main(void)
{
	request_heads();
	refused_requests();
	responses();
	size_limit();
	header_limit();
	lookups();
	pipelined_heads();
	chunked();
	refused_chunks();
	large_chunks();
	framing_limit();
	fixed();
	endings();
	response_bodies();
	return tap_done();
}
