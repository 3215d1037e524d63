#include "net/call.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/route.h"
#include "net/server.h"
#include "tap.h"

/* ---- a caller that remembers what it was answered ---- */

struct caller {
	struct sink sink; /* first */
	struct call call;
	struct arena arena;
	struct server server;
	struct err err;
	int status, begins;
	char type[100];
	int64_t length;
	struct buf headers, body;
	size_t writes_left; /* then nobody listens any more */
};

static int begin(struct sink *sink, const struct answer *answer, struct err *err)
{
	struct caller *c = (struct caller *)sink;
	if (!c->writes_left)
		return err_set(err, ERR_GONE, "gone");
	sink->begun = true;
	c->begins++;
	c->status = answer->status;
	c->length = answer->length;
	snprintf(c->type, sizeof c->type, "%s", answer->type ? answer->type : "");
	for (size_t i = 0; i < answer->header_count; i++)
		buf_printf(&c->headers, "%s: %s\n", answer->headers[i].name,
			   answer->headers[i].value);
	return 0;
}

static int write_body(struct sink *sink, const void *data, size_t len, struct err *err)
{
	struct caller *c = (struct caller *)sink;
	if (!c->writes_left)
		return err_set(err, ERR_GONE, "gone");
	c->writes_left--;
	return buf_add(&c->body, data, len);
}

static int write_file(struct sink *sink, int fd, int64_t at, int64_t len, struct err *err)
{
	char data[1000];
	ssize_t n = pread(fd, data, len < 1000 ? (size_t)len : 1000, at);
	return n == len ? write_body(sink, data, (size_t)n, err) : -1;
}

static void caller_open(struct caller *c, const struct route *route)
{
	*c = (struct caller){ .sink = { begin, write_body, write_file, -1, false },
			      .headers = BUF(10000),
			      .body = BUF(64 << 20),
			      .writes_left = (size_t)-1,
			      .length = -2 };
	buf_str(&c->headers, "");
	buf_str(&c->body, "");
	c->server.stop_fd = eventfd(0, EFD_CLOEXEC);
	c->call = (struct call){
		.route = route, .server = &c->server, .arena = &c->arena, .sink = &c->sink
	};
}

static void caller_close(struct caller *c)
{
	close(c->server.stop_fd);
	buf_done(&c->headers);
	buf_done(&c->body);
	arena_done(&c->arena);
}

/* ---- JSON ---- */

struct thing {
	const char *name;
	int64_t size;
};
static const struct field thing_fields[] = {
	STR(thing, name, NULLABLE, NULL),
	INT(thing, size, 0, NULL),
};
static const struct schema thing_schema = SCHEMA(thing, "Thing", thing_fields);
static const struct field thing_data = { .type = T_OBJ, .of = &thing_schema };
static const struct field text_data = { .type = T_STR };

static const struct route enveloped = { "GET", "/", .data = &thing_data };
static const struct route said = { "GET", "/", .data = &text_data, .message = "Said",
				   .extra = &thing_schema };
static const struct route bare = { "GET", "/", .data = &thing_data, .flags = BARE };
static const struct route dataless = { "GET", "/" };

static void check_reply(struct caller *c, const void *data, const char *want)
{
	CHECK(call_reply(&c->call, data, &c->err) == 0);
	CHECK(c->status == 200 && c->begins == 1 && c->length == (int64_t)c->body.len);
	CHECK_STR(c->type, "application/json");
	CHECK_STR(c->body.data, want);
	caller_close(c);
}

static void replies(void)
{
	struct caller c;
	struct thing thing = { "n\"", 7 };
	caller_open(&c, &enveloped);
	check_reply(
		&c, &thing,
		"{\"success\":true,\"message\":\"Operation successful\",\"data\":{\"name\":\"n\\\"\",\"size\":7},"
		"\"hint\":null}");
	caller_open(&c, &enveloped);
	c.call.failed = true;
	c.call.message = "No";
	c.call.hint = "Try again";
	check_reply(&c, NULL,
		    "{\"success\":false,\"message\":\"No\",\"data\":null,\"hint\":\"Try again\"}");
	caller_open(&c, &said);
	c.call.extra = &thing;
	const char *text = "hi";
	check_reply(&c, &text,
		    "{\"success\":true,\"message\":\"Said\",\"data\":\"hi\",\"hint\":null,"
		    "\"name\":\"n\\\"\",\"size\":7}");
	caller_open(&c, &said);
	check_reply(&c, NULL,
		    "{\"success\":true,\"message\":\"Said\",\"data\":null,\"hint\":null}");
	caller_open(&c, &bare);
	check_reply(&c, &thing, "{\"name\":\"n\\\"\",\"size\":7}");
	caller_open(&c, &bare);
	check_reply(&c, NULL, "null");
	caller_open(&c, &dataless);
	check_reply(
		&c, &thing,
		"{\"success\":true,\"message\":\"Operation successful\",\"data\":null,\"hint\":null}");
}

/* A large answer begins before it ends; the caller may leave in between. */
static void large_replies(void)
{
	enum { SIZE = 1 << 20 };
	struct caller c;
	struct thing thing = { .size = 1 };
	char *name = xcalloc(1, SIZE + 1);
	memset(name, 'x', SIZE);
	thing.name = name;
	caller_open(&c, &bare);
	CHECK(call_reply(&c.call, &thing, &c.err) == 0);
	CHECK(c.length == -1 && c.begins == 1 &&
	      c.body.len == SIZE + strlen("{\"name\":\"\",\"size\":1}"));
	CHECK(!strncmp(c.body.data, "{\"name\":\"xxx", 12) &&
	      !strcmp(c.body.data + c.body.len - 12, "x\",\"size\":1}"));
	caller_close(&c);
	caller_open(&c, &bare);
	jw_raw(call_reply_begin(&c.call, &c.err), name, SIZE);
	CHECK(call_reply_end(&c.call, &c.err) == 0 && c.body.len == SIZE);
	caller_close(&c);
	for (size_t writes = 0; writes < 4; writes++) {
		caller_open(&c, &bare);
		c.writes_left = writes;
		CHECK(call_reply(&c.call, &thing, &c.err) == -1 && c.err.code == ERR_GONE);
		caller_close(&c);
	}
	free(name);
}

static void texts(void)
{
	struct caller c;
	caller_open(&c, &dataless);
	CHECK(call_text(&c.call, "text/plain", "a\0b", 3, &c.err) == 0);
	CHECK(c.status == 200 && c.length == 3 && c.body.len == 3);
	CHECK_STR(c.type, "text/plain");
	caller_close(&c);
	caller_open(&c, &dataless);
	CHECK(call_redirect(&c.call, "/to", &c.err) == 0 && c.status == 307 && c.length == 0);
	CHECK_STR(c.headers.data, "Location: /to\nCache-Control: no-store\n");
	caller_close(&c);
}

/* ---- events ---- */

static void check_event(const char *data, const char *want)
{
	struct caller c;
	caller_open(&c, &dataless);
	CHECK(call_event(&c.call, NULL, NULL, data, strlen(data), &c.err) == 0);
	CHECK_STR(c.body.data, want);
	caller_close(&c);
}

static void events(void)
{
	struct caller c;
	caller_open(&c, &dataless);
	CHECK(call_event(&c.call, "tick", "7", "one\ntwo", 7, &c.err) == 0);
	CHECK(call_event_ping(&c.call, &c.err) == 0);
	CHECK(call_event(&c.call, NULL, NULL, NULL, 0, &c.err) == 0);
	CHECK_STR(c.body.data, "id: 7\nevent: tick\ndata: one\ndata: two\n\n: ping\n\ndata: \n\n");
	CHECK(c.status == 200 && c.length == -1 && c.begins == 1);
	CHECK_STR(c.type, "text/event-stream; charset=utf-8");
	CHECK(strstr(c.headers.data, "Cache-Control: no-store\n") != NULL);
	caller_close(&c);
	check_event("", "data: \n\n");
	check_event("\n", "data: \ndata: \n\n");
	check_event("a\n\nb\n", "data: a\ndata: \ndata: b\ndata: \n\n");
	/* A stream's lines also end with CR: text that has one must not become a field of its own. */
	check_event("50%\r60%\revent: forged", "data: 50%\ndata: 60%\ndata: event: forged\n\n");
	check_event("a\r\nb\r\n", "data: a\ndata: b\ndata: \n\n");
	check_event("a\r\n\r\nb\n\rc", "data: a\ndata: \ndata: b\ndata: \ndata: c\n\n");
	caller_open(&c, &dataless);
	char many[20000];
	memset(many, '\n', sizeof many);
	CHECK(call_event(&c.call, "e", NULL, many, sizeof many, &c.err) == 0);
	CHECK(c.body.len == 9 + 7 * 20001 + 1);
	c.writes_left = 0;
	CHECK(call_event(&c.call, "e", NULL, "x", 1, &c.err) == -1 && c.err.code == ERR_GONE);
	CHECK(call_event_ping(&c.call, &c.err) == -1 && c.err.code == ERR_GONE);
	caller_close(&c);
}

/* ---- files ---- */

static int file_of(const char *text)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	return fd;
}

static void ranges(void)
{
	static const struct {
		const char *range;
		int status;
		const char *body, *content_range;
	} rows[] = {
		{ NULL, 200, "0123456789", NULL },
		{ "bytes=0-3", 206, "0123", "bytes 0-3/10" },
		{ "bytes=5-", 206, "56789", "bytes 5-9/10" },
		{ "bytes=9-9", 206, "9", "bytes 9-9/10" },
		{ "bytes=-3", 206, "789", "bytes 7-9/10" },
		{ "bytes=-100", 206, "0123456789", "bytes 0-9/10" },
		{ "bytes=3-1000", 206, "3456789", "bytes 3-9/10" },
		{ "bytes=3-99999999999999999999", 206, "3456789", "bytes 3-9/10" },
		{ "bytes=10-", 416, "", "bytes */10" },
		{ "bytes=99999999999999999999-", 416, "", "bytes */10" },
		{ "bytes=-0", 416, "", "bytes */10" },
		/* What is not understood is no range. */
		{ "bytes=0-1,3-4", 200, "0123456789", NULL },
		{ "bytes=5-3", 200, "0123456789", NULL },
		{ "bytes=a-b", 200, "0123456789", NULL },
		{ "bytes=", 200, "0123456789", NULL },
		{ "bytes=-", 200, "0123456789", NULL },
		{ "bytes=1", 200, "0123456789", NULL },
		{ "bytes=1-2x", 200, "0123456789", NULL },
		{ "bytes=1--2", 200, "0123456789", NULL },
		{ "bytes=--2", 200, "0123456789", NULL },
		{ "bytes=-+2", 200, "0123456789", NULL },
		{ "bytes=- 2", 200, "0123456789", NULL },
		{ "bytes=+1-2", 200, "0123456789", NULL },
		{ "bytes=1-+2", 200, "0123456789", NULL },
		{ "items=0-3", 200, "0123456789", NULL },
	};
	auto_close int fd = file_of("0123456789");
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct caller c;
		caller_open(&c, &dataless);
		c.call.range = rows[i].range;
		CHECK(call_file(&c.call, fd, "text/x", NULL, NULL, 0, &c.err) == 0);
		if (!CHECK(c.status == rows[i].status && c.length == (int64_t)strlen(rows[i].body)))
			printf("# %s: %d\n", rows[i].range, c.status);
		CHECK_STR(c.body.data, rows[i].body);
		const char *header = strstr(c.headers.data, "Content-Range: ");
		size_t len = rows[i].content_range ? strlen(rows[i].content_range) : 0;
		CHECK(len ? header && !strncmp(header + 15, rows[i].content_range, len) &&
				      header[15 + len] == '\n'
			  : !header);
		caller_close(&c);
	}
}

/* Asks for the file with these headers; the status. "TAG" in them stands for its tag. */
static int ask(int fd, const char *tag, const char *none_match, const char *if_range,
	       bool head_only)
{
	struct caller c;
	char one[200] = "", two[200] = "";
	const char *mark = none_match ? strstr(none_match, "TAG") : NULL;
	snprintf(one, sizeof one, "%.*s%s%s", mark ? (int)(mark - none_match) : 199,
		 none_match ? none_match : "", mark ? tag : "", mark ? mark + 3 : "");
	snprintf(two, sizeof two, "%s",
		 if_range && !strcmp(if_range, "TAG") ? tag
		 : if_range                           ? if_range
						      : "");
	caller_open(&c, &dataless);
	c.call.if_none_match = none_match ? one : NULL;
	c.call.if_range = if_range ? two : NULL;
	c.call.range = "bytes=0-0";
	c.call.head_only = head_only;
	CHECK(call_file(&c.call, fd, "text/x", NULL, NULL, 0, &c.err) == 0);
	CHECK(c.status == 304 || head_only ? !c.body.len : c.length == (int64_t)c.body.len);
	int status = c.status;
	caller_close(&c);
	return status;
}

static void tags(void)
{
	struct caller c;
	char tag[100] = "";
	auto_close int fd = file_of("0123456789");
	caller_open(&c, &dataless);
	CHECK(call_file(&c.call, fd, "text/x", NULL, NULL, 0, &c.err) == 0);
	CHECK(sscanf(c.headers.data, "ETag: %99s", tag) == 1 && *tag == '"' &&
	      tag[strlen(tag) - 1] == '"');
	CHECK(strstr(c.headers.data, "Accept-Ranges: bytes\n") != NULL);
	caller_close(&c);
	CHECK(ask(fd, tag, "TAG", NULL, false) == 304);
	CHECK(ask(fd, tag, "W/TAG", NULL, false) == 304);
	CHECK(ask(fd, tag, "\"other\", TAG, \"third\"", NULL, false) == 304);
	CHECK(ask(fd, tag, "*", NULL, false) == 304);
	CHECK(ask(fd, tag, "\"other\"", NULL, false) == 206);
	CHECK(ask(fd, tag, NULL, "TAG", false) == 206);
	CHECK(ask(fd, tag, NULL, "\"other\"", false) == 200);
	CHECK(ask(fd, tag, NULL, "Wed, 21 Oct 2015 07:28:00 GMT", false) == 200);
	CHECK(ask(fd, tag, NULL, NULL, true) == 206);
	if (write(fd, "more", 4) != 4)
		abort();
	CHECK(ask(fd, tag, "TAG", NULL, false) == 206); /* another version */
}

static void check_name(const char *name, const char *want)
{
	struct caller c;
	auto_close int fd = file_of("x");
	caller_open(&c, &dataless);
	CHECK(call_file(&c.call, fd, "text/x", name, (struct pair[]){ { "X-A", "b" } }, 1,
			&c.err) == 0);
	CHECK(strstr(c.headers.data, "X-A: b\n") != NULL);
	const char *header = strstr(c.headers.data, "Content-Disposition: ");
	if (!CHECK(header && !strncmp(header + 21, want, strlen(want)) &&
		   header[21 + strlen(want)] == '\n'))
		printf("# %s\n", c.headers.data);
	caller_close(&c);
}

static void names(void)
{
	check_name("a b.txt", "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
	check_name("\xc3\xa9\"\\\r\n.x",
		   "attachment; filename=\"______.x\"; filename*=UTF-8''%C3%A9%22%5C%0D%0A.x");
	struct caller c;
	auto_close int empty = file_of(""), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	caller_open(&c, &dataless);
	CHECK(call_file(&c.call, empty, "text/x", NULL, NULL, 0, &c.err) == 0 && c.status == 200 &&
	      !c.length);
	caller_close(&c);
	caller_open(&c, &dataless);
	c.call.range = "bytes=0-";
	CHECK(call_file(&c.call, empty, "text/x", NULL, NULL, 0, &c.err) == 0 && c.status == 416);
	caller_close(&c);
	caller_open(&c, &dataless);
	CHECK(call_file(&c.call, null, "text/x", NULL, NULL, 0, &c.err) == -1 &&
	      c.err.code == ERR_BAD_REQUEST);
	CHECK(!c.begins);
	caller_close(&c);
}

/* ---- waiting ---- */

static void waiting(void)
{
	struct caller c;
	int pair[2];
	auto_close int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	caller_open(&c, &dataless);
	CHECK(call_wait(&c.call, event, clock_ms() - 5) == WAKE_TIMEOUT);
	int64_t start = clock_ms();
	CHECK(call_wait(&c.call, event, start + 20) == WAKE_TIMEOUT && clock_ms() >= start + 20);
	eventfd_write(event, 3);
	CHECK(call_wait(&c.call, event, INT64_MAX) == WAKE_READY);
	eventfd_t left;
	CHECK(eventfd_read(event, &left) == -1); /* the signal was taken */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	c.sink.client_fd = pair[0];
	shutdown(pair[1], SHUT_WR);
	CHECK(call_wait(&c.call, event, clock_ms() + 10) ==
	      WAKE_TIMEOUT); /* half-closed is not gone */
	if (write(pair[0], "x", 1) != 1)
		abort();
	close(pair[1]);
	CHECK(call_wait(&c.call, event, INT64_MAX) == WAKE_LEFT);
	eventfd_write(c.server.stop_fd, 1);
	CHECK(call_wait(&c.call, event, INT64_MAX) == WAKE_STOPPING);
	eventfd_write(event, 1);
	CHECK(call_wait(&c.call, event, INT64_MAX) == WAKE_READY); /* work that is done is done */
	close(pair[0]);
	caller_close(&c);
}

int main(void)
{
	replies();
	large_replies();
	texts();
	events();
	ranges();
	tags();
	names();
	waiting();
	return tap_done();
}
