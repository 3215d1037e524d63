/* A relay between a client and a server that send anything: what each gets is one whole message, or the
 * beginning of one, framed as its head says, and the relay never goes on without bytes moving. */
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "../tests/unit/memory_end.h"
#include "base/err.h"
#include "base/own.h"
#include "net/http.h"
#include "net/relay.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const struct http_limits limits = { .head = 65536 }, wide = { .head = FLOW_OUT_MAX };
static char piece[FLOW_PIECE];

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* Where the body behind a head ends; 0: not in these bytes. */
static size_t body_end(const struct http *http, bool no_body, const char *data, size_t len)
{
	const struct http_head *head = &http->head;
	struct memory_end from, to;
	struct flow flow;
	if (no_body || head->length == 0)
		return head->size;
	if (!head->chunked)
		return head->length > 0 && head->size + (size_t)head->length <= len
			       ? head->size + (size_t)head->length
			       : 0;
	memory_end_init(&from, data + head->size, len - head->size);
	memory_end_init(&to, "", 0);
	flow_begin(&flow, BODY_CHUNKED, -1, &http->parser);
	while (flow_pump(&flow, &from.end, &to.end, piece) > 0 && !flow.done)
		;
	size_t left = from.left + end_held(&from.end);
	memory_end_done(&from);
	memory_end_done(&to);
	return flow.done ? len - left : 0;
}

/* What a side got is one message, which ends where its head says, behind at most some interim ones. */
static void check_message(const struct relay *relay, const struct buf *got, bool request,
			  bool whole)
{
	size_t at = 0;
	struct err err;
	for (;;) {
		struct http http;
		http_init(&http, -1, request ? HTTP_REQUESTS : HTTP_RESPONSES, &wide);
		int result = got->len > at ? http_feed(&http, got->data + at, got->len - at, &err)
					   : 0;
		bool again = false;
		if (result < 0) /* more headers than there may be: the other side refuses it */
			must(err.code == ERR_HEAD_TOO_LARGE || err.code == ERR_BAD_REQUEST);
		if (result > 0 && !request && http.head.status < 200 && http.head.status != 101) {
			at += http.head.size;
			again = true;
		} else if (result > 0 && !request && http.head.status == 101) {
			must(relay->tunnel);
		} else if (result > 0) {
			size_t end = body_end(&http, !request && relay->head_only, got->data + at,
					      got->len - at);
			bool to_end = !request && !relay->head_only && http.head.length < 0 &&
				      !http.head.chunked;
			must(!end || end == got->len - at); /* nothing behind it */
			must(!whole || end || to_end);
		}
		http_done(&http);
		if (!again)
			return;
	}
}

static void run(struct relay *relay, struct memory_end *client, struct memory_end *server,
		struct http *http)
{
	const struct relay_tools tools = { http, &limits, piece, 1 };
	const char *why = NULL;
	enum relay_step step;
	size_t steps = 0, most = (client->left + server->left + end_held(&client->end)) * 4 + 4096;
	bool ready;
	do {
		client->end.readable = server->end.readable = true;
		step = relay_step(relay, &tools, &why);
		ready = end_pending(&client->end) || end_pending(&server->end);
		must(++steps < most + client->got.len + server->got.len);
	} while (step == RELAY_MOVED || (step == RELAY_WAITS && ready));
	while (end_pending(&client->end))
		end_flush(&client->end);
	must((step == RELAY_CLOSED || step == RELAY_WRONG) == (why != NULL));
	must(!why || !relay->answered);
	must(step != RELAY_DONE || relay->answered);
	must(!relay->tunnel || relay->upgrade);
	check_message(relay, &client->got, false, step == RELAY_DONE && !relay->tunnel);
	if (!relay->tunnel)
		check_message(relay, &server->got, true, relay->up.done);
}

/* The first byte: how it is asked and how the bytes come; two more: where the server's begin. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const size_t at_once[] = { SIZE_MAX, 1, 3, 64 };
	struct http http;
	struct err err;
	if (size < 4)
		return 0;
	const char *data = (const char *)input + 3;
	size_t len = size - 3, split = ((size_t)input[1] << 8 | input[2]) % (len + 1);
	http_init(&http, -1, HTTP_REQUESTS, &limits);
	if (http_feed(&http, data, split, &err) == 1 && http.head.target[0] == '/' &&
	    !strchr(http.head.target, '#')) {
		struct memory_end client, server;
		struct relay relay = { .client = &client.end, .server = &server.end };
		memory_end_init(&client, data + http.head.size, split - http.head.size);
		memory_end_init(&server, data + split, len - split);
		client.open = input[0] & 1;
		server.open = input[0] & 2;
		client.at_once = at_once[input[0] >> 2 & 3];
		server.at_once = at_once[input[0] >> 4 & 3];
		relay_init(&relay, &http.head);
		relay.head.plain = input[0] & 64;
		relay.head.prefix = input[0] & 128 ? "/proxy/80" : NULL;
		relay.head.program = input[0] & 128 ? 80 : 0; /* see gateway.c for what it gets */
		struct head_request how = { .peer = "p",
					    .program = relay.head.program,
					    .upgrade = relay.upgrade };
		head_request(&server.end.out, &http.head, &how);
		relay_begin(&relay, &http, 1);
		run(&relay, &client, &server, &http);
		memory_end_done(&client);
		memory_end_done(&server);
	}
	http_done(&http);
	return 0;
}
