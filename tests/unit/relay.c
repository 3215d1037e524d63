#include "net/relay.h"

#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "memory_end.h"
#include "net/http.h"
#include "tap.h"

#define GET     "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define GET_1_0 "GET /a HTTP/1.0\r\nHost: h\r\n\r\n"
#define HEAD    "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define SWITCH  "GET /a HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
#define POST    "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
#define CHUNKS  "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
#define OK      "HTTP/1.1 200 OK\r\n"

static const struct http_limits limits = { .head = 65536 };
static char piece[FLOW_PIECE];

struct run {
	struct memory_end client, server;
	struct relay relay;
	struct http http;
	struct relay_tools tools;
	const char *why;
	enum relay_step step;
};

/* The client's head is read, the server's is to come; at_once bytes go through at once. */
static void begin(struct run *run, const char *asks, const char *says, size_t at_once)
{
	struct err err;
	*run = (struct run){ .tools = { &run->http, &limits, piece, 1000 } };
	memory_end_init(&run->client, asks, strlen(asks));
	memory_end_init(&run->server, says, strlen(says));
	run->client.open = true;
	http_init(&run->http, -1, HTTP_REQUESTS, &limits);
	CHECK(http_feed(&run->http, asks, strlen(asks), &err) == 1);
	run->client.input += run->http.head.size;
	run->client.left -= run->http.head.size;
	run->client.at_once = run->server.at_once = at_once;
	run->relay.client = &run->client.end;
	run->relay.server = &run->server.end;
	relay_init(&run->relay, &run->http.head);
	relay_begin(&run->relay, &run->http, 1000);
}

static void go_on(struct run *run)
{
	do {
		run->client.end.readable = run->server.end.readable = true;
		run->step = relay_step(&run->relay, &run->tools, &run->why);
	} while (run->step == RELAY_MOVED ||
		 (run->step == RELAY_WAITS &&
		  ((end_pending(&run->client.end) && !run->client.blocked) ||
		   end_pending(&run->server.end))));
	while (end_pending(&run->client.end) && !run->client.blocked)
		end_flush(&run->client.end);
}

static void end(struct run *run)
{
	http_done(&run->http);
	memory_end_done(&run->client);
	memory_end_done(&run->server);
}

static const char *text(const struct buf *buf)
{
	return buf->data ? buf->data : "";
}

static const struct {
	const char *asks, *says;
	enum relay_step step;
	const char *client, *server; /* what each gets */
	bool keep_alive;
} rows[] = {
	/* clang-format off */
	{ GET, OK "Content-Length: 2\r\n\r\nhi", RELAY_DONE, OK "Content-Length: 2\r\n\r\nhi", "", true },
	{ GET, OK "Content-Length: 0\r\n\r\n", RELAY_DONE, OK "Content-Length: 0\r\n\r\n", "", true },
	{ GET, "HTTP/1.1 204 None\r\n\r\n", RELAY_DONE, "HTTP/1.1 204 None\r\n\r\n", "", true },
	{ GET, OK "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\nT: t\r\n\r\n", RELAY_DONE,
	  OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "", true },
	{ GET_1_0, OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", RELAY_DONE,
	  OK "Connection: close\r\n\r\nhi", "", false },
	{ GET, OK "\r\nuntil the end", RELAY_DONE, OK "Connection: close\r\n\r\nuntil the end", "", false },
	{ HEAD, OK "Content-Length: 9\r\n\r\n", RELAY_DONE, OK "Content-Length: 9\r\n\r\n", "", true },
	{ POST "body", OK "Content-Length: 0\r\n\r\n", RELAY_DONE, OK "Content-Length: 0\r\n\r\n", "body", true },
	{ CHUNKS "4;x\r\nbody\r\n0\r\n\r\n", OK "Content-Length: 0\r\n\r\n", RELAY_DONE,
	  OK "Content-Length: 0\r\n\r\n", "4\r\nbody\r\n0\r\n\r\n", true },
	{ CHUNKS "x", OK "Content-Length: 0\r\n\r\n", RELAY_CUT, "", "", true },
	{ GET, "HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" OK "Content-Length: 0\r\n\r\n", RELAY_DONE,
	  "HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" OK "Content-Length: 0\r\n\r\n", "", true },
	{ GET_1_0, "HTTP/1.1 103 Hints\r\n\r\n" OK "Content-Length: 0\r\n\r\n", RELAY_DONE,
	  OK "Connection: close\r\nContent-Length: 0\r\n\r\n", "", false },
	{ SWITCH "up", "HTTP/1.1 101 Go\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\ndown", RELAY_WAITS,
	  "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\ndown", "up", false },
	{ SWITCH, OK "Content-Length: 0\r\n\r\n", RELAY_DONE, OK "Content-Length: 0\r\n\r\n", "", true },
	/* What a server may not. */
	{ GET, "HTTP/1.1 101 Go\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n", RELAY_WRONG, "", "", true },
	{ GET, "", RELAY_CLOSED, "", "", true },
	{ GET, OK, RELAY_CLOSED, "", "", true },
	{ GET, "garbage\r\n\r\n", RELAY_WRONG, "", "", true },
	{ GET, "HTTP/1.1 099 Odd\r\n\r\n", RELAY_WRONG, "", "", true },
	{ GET, OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", RELAY_WRONG, "", "", true },
	{ GET, OK "Content-Length: 4\r\n\r\nhi", RELAY_CUT, OK "Content-Length: 4\r\n\r\nhi", "", true },
	{ GET, OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", RELAY_CUT,
	  OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "", true },
	/* clang-format on */
};

/* However the bytes come. */
static void exchanges(void)
{
	static const size_t sizes[] = { SIZE_MAX, 1, 7 };
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t k = 0; k < COUNT(sizes); k++) {
			struct run run;
			bool chunks = strstr(rows[i].asks, "chunked") ||
				      strstr(rows[i].says, "chunked");
			if (chunks && k) /* chunks come out as they came in */
				continue;
			begin(&run, rows[i].asks, rows[i].says, sizes[k]);
			go_on(&run);
			bool good = run.step == rows[i].step &&
				    run.relay.keep_alive == rows[i].keep_alive &&
				    !strcmp(text(&run.client.got), rows[i].client) &&
				    !strcmp(text(&run.server.got), rows[i].server);
			if (!CHECK(good))
				printf("# row %zu, %zu at once: step %d, client '%s', server '%s'\n",
				       i, sizes[k], run.step, text(&run.client.got),
				       text(&run.server.got));
			end(&run);
		}
}

static void interim_without_end(void)
{
	struct run run;
	auto_buf struct buf says = BUF(4096);
	for (int i = 0; i < 17; i++)
		buf_str(&says, "HTTP/1.1 100 Continue\r\n\r\n");
	begin(&run, GET, says.data, SIZE_MAX);
	go_on(&run);
	CHECK(run.step == RELAY_WRONG && run.relay.interim == 17);
	end(&run);
}

static bool not_found(void *arg, const struct http_head *head)
{
	++*(int *)arg;
	return head->status == 404;
}

/* Of a response that is not wanted the client gets nothing; interim ones are not looked at. */
static void again(void)
{
	static const char *const says[] = { "HTTP/1.1 404 None\r\nContent-Length: 2\r\n\r\nno",
					    "HTTP/1.1 103 Hints\r\n\r\n" OK
					    "Content-Length: 2\r\n\r\nhi" };
	for (size_t i = 0; i < COUNT(says); i++) {
		struct run run;
		int looks = 0;
		begin(&run, GET, says[i], SIZE_MAX);
		run.relay.look = not_found;
		run.relay.look_arg = &looks;
		go_on(&run);
		CHECK(run.step == (i ? RELAY_DONE : RELAY_AGAIN) && looks == 1);
		CHECK(i || (!run.client.got.len && !run.relay.answered));
		end(&run);
	}
}

/* Each end hears that the other sends no more, and what it says after that still arrives. */
static void half_close(void)
{
	struct run run;
	begin(&run, SWITCH "up", "HTTP/1.1 101 Go\r\n\r\n", SIZE_MAX);
	run.server.open = true;
	go_on(&run);
	CHECK(run.step == RELAY_WAITS && !run.server.told);
	run.client.open = false;
	go_on(&run);
	CHECK(run.step == RELAY_WAITS && run.server.told && !run.client.told);
	run.server.input = "last";
	run.server.left = 4;
	go_on(&run);
	run.server.open = false;
	go_on(&run);
	CHECK(run.step == RELAY_DONE && run.client.told);
	CHECK_STR(text(&run.client.got) + strlen(text(&run.client.got)) - 4, "last");
	end(&run);
}

/* A head that is still held goes once there is an answer, and not before. */
static void held_head(void)
{
	struct run run;
	begin(&run, GET, "", SIZE_MAX);
	buf_str(&run.client.end.in, GET "next");
	run.relay.head_size = strlen(GET);
	run.server.open = true;
	go_on(&run);
	CHECK(run.step == RELAY_WAITS && end_held(&run.client.end) == strlen(GET "next"));
	run.server.input = OK "Content-Length: 0\r\n\r\n";
	run.server.left = strlen(run.server.input);
	go_on(&run);
	CHECK(run.step == RELAY_DONE && end_held(&run.client.end) == strlen("next"));
	end(&run);
}

/* Nothing more is read from a side while the other does not take what it was sent. */
static void pressure(void)
{
	struct run run;
	begin(&run, GET, OK "Content-Length: 4\r\n\r\nbody", SIZE_MAX);
	run.client.blocked = true;
	run.server.at_once = 40;
	go_on(&run);
	CHECK(run.step == RELAY_WAITS && run.server.left > 0 && !relay_reads_server(&run.relay));
	run.client.blocked = false;
	go_on(&run);
	CHECK(run.step == RELAY_DONE && run.server.left == 0);
	end(&run);
}

static enum relay_fault late(const struct run *run, int64_t *ret_until)
{
	const struct relay_patience patience = {
		.send_ms = 1, .tunnel_send_ms = 2, .body_ms = 3, .first_ms = 4
	};
	return relay_waits_for(&run->relay, &patience, ret_until);
}

static void deadlines(void)
{
	struct run run;
	int64_t until;
	begin(&run, GET, "", SIZE_MAX);
	run.server.open = true;
	go_on(&run);
	CHECK(late(&run, &until) == RELAY_SLOW_SERVER && until == 1004);
	run.server.input = OK "Content-Length: 4\r\n\r\nbo";
	run.server.left = strlen(run.server.input);
	run.tools.now_ms = 2000;
	go_on(&run); /* it has begun: it may take its time */
	CHECK(late(&run, &until) == RELAY_IN_TIME && until == INT64_MAX);
	CHECK(run.relay.moved_ms == 2000);
	run.server.input = "dy";
	run.server.left = 2;
	run.client.blocked = true;
	run.server.end.readable = true;
	(void)relay_step(&run.relay, &run.tools, &run.why);
	CHECK(late(&run, &until) == RELAY_STUCK && until == 2001);
	end(&run);
	begin(&run, POST "b", "", SIZE_MAX);
	run.server.open = true;
	go_on(&run);
	CHECK(late(&run, &until) == RELAY_SLOW_CLIENT && until == 1003);
	end(&run);
	begin(&run, SWITCH, "HTTP/1.1 101 Go\r\n\r\n", SIZE_MAX);
	run.server.open = true;
	go_on(&run);
	CHECK(late(&run, &until) == RELAY_IN_TIME);
	run.server.open = false;
	go_on(&run); /* the server has ended, the client is to follow soon */
	CHECK(late(&run, &until) == RELAY_STUCK && until > 1000 && until < 10000);
	end(&run);
}

int main(void)
{
	exchanges();
	interim_without_end();
	again();
	half_close();
	held_head();
	pressure();
	deadlines();
	return tap_done();
}
