/* What the host passes on of a request or an answer: a head that the strict parser takes again, with
 * the same framing, and with nothing that is not the other side's; a body that ends where it says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "host/address.h"
#include "host/own_name.h"
#include "net/call.h"
#include "net/cookie.h"
#include "net/flow.h"
#include "net/guard.h"
#include "net/head.h"
#include "net/http.h"
#include "net/target.h"
#include "net/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const struct http_limits limits = { .head = 65536 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* What it says of the page that sent it. */
static void page(const struct http *http)
{
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	struct cookies it = { 0 };
	struct http again;
	struct err err;
	char from[32], value[16];
	size_t cookies = 0;
	guard_page(&http->head, from, sizeof from);
	must(!guard_unseen(&http->head, true) || guard_unseen(&http->head, false));
	while (cookie_next(&http->head, COOKIE_NAME, &it, value, sizeof value))
		must(!strchr(value, ';') && ++cookies < limits.head);
	for (int i = 0; i < 3; i++) {
		out.len = 0;
		if (i == 0)
			head_redirect(&out, 303, http->head.target, COOKIE_NAME "=x", false);
		else if (i == 1)
			head_preflight(&out, &http->head, "https://a.example", true);
		else
			head_answer(&out,
				    &(struct answer){ 401, "text/html",
						      (int64_t)strlen(http->head.target),
						      .header_count = 0 },
				    http->head.target, false);
		http_init(&again, -1, HTTP_RESPONSES,
			  &(struct http_limits){ .head = FLOW_OUT_MAX });
		must(http_feed(&again, out.data, out.len, &err) == 1);
		must(again.head.size + (size_t)again.head.length == out.len);
		http_done(&again);
	}
}

static bool is_secret(void *arg, const char *text, size_t len)
{
	(void)arg;
	return len == 6 && !memcmp(text, "secret", 6);
}

/* However the browser, or a proxy, says that it has called: it is led to this box and nowhere else. */
static void own_name(const struct http_head *head)
{
	static const char local[] = "//abc.localhost";
	auto_buf struct buf to = BUF(1024);
	if (own_name_find(head, NULL, "abc", &to) == OWN_NAME_NONE)
		return;
	size_t len = strlen(local), port = to.len > len ? to.len - len : 0;
	must(!memcmp(to.data, local, len) && port <= strlen(":65535"));
	must(!port || (to.data[len] == ':' && strspn(to.data + len + 1, "0123456789") == port - 1));
}

/* A program sees one address of its own, and nothing that the client says of another. */
static void program(const struct http *http)
{
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	struct http again;
	struct err err;
	struct head_request how = { .peer = "p", .program = 80 };
	if (*http->head.target != '/')
		return;
	head_request(&out, &http->head, &how);
	http_init(&again, -1, HTTP_REQUESTS, &(struct http_limits){ .head = FLOW_OUT_MAX });
	if (http_feed(&again, out.data, out.len, &err) == 1) {
		must(again.head.size == out.len && http_header_count(&again.head, "host") == 1);
		must(!strcmp(http_header(&again.head, "host"), "localhost:80"));
		must(http_header_count(&again.head, "x-forwarded-for") == 1);
		must(!strcmp(http_header(&again.head, "x-forwarded-for"), "p"));
		must(!http_header(&again.head, "x-forwarded-host") &&
		     !http_header(&again.head, "forwarded"));
	}
	http_done(&again);
}

static void request(struct http *http)
{
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	struct address address;
	struct target target;
	struct http again;
	struct err err;
	const struct address_names names = { "box.example", http->head.count % 2 };
	if (target_split(&http->head, &target, &err) < 0 || *target.path != '/' ||
	    address_find(&http->head, &names, &address, &err) < 0)
		return;
	must(address_is_id(address.id));
	own_name(&http->head);
	page(http);
	program(http);
	const struct pair own[] = { { WIRE_KEY, "s" }, { WIRE_BOX, address.id } };
	struct head_request how = { .peer = "p",
				    .prefix = address.prefix,
				    .own = own,
				    .own_count = COUNT(own),
				    .strip_query = true,
				    .is_secret = is_secret };
	head_request(&out, &http->head, &how);
	http_init(&again, -1, HTTP_REQUESTS, &(struct http_limits){ .head = FLOW_OUT_MAX });
	int got = http_feed(&again, out.data, out.len, &err);
	if (got == 1) { /* more headers than it may have is no harm: the box refuses them */
		must(again.head.size == out.len && again.head.chunked == http->head.chunked);
		must(again.head.length == http->head.length);
		must(!http_header(&again.head, "authorization") &&
		     !http_header(&again.head, "upgrade"));
		must(!strcmp(http_header(&again.head, "x-aio-api-key"), "s"));
		size_t len = target.path_len - address.prefix;
		must(again.head.target[0] == '/' && target.path_len >= address.prefix);
		must(!len || !strncmp(again.head.target, target.path + address.prefix, len));
		must(strcspn(again.head.target, "?") == (len ? len : 1));
	}
	http_done(&again);
}

static void answer(struct http *http)
{
	auto_buf struct buf out = BUF(FLOW_OUT_MAX);
	struct http again;
	struct err err;
	if (http->head.status < 200)
		return;
	enum body_kind kind = http->head.chunked ? BODY_CHUNKED : BODY_LENGTH;
	struct head_response how = { .plain = true,
				     .kind = kind,
				     .close = true,
				     .length_known = http_header(&http->head, "content-length") };
	head_response(&out, &http->head, "x", &how);
	http_init(&again, -1, HTTP_RESPONSES, &(struct http_limits){ .head = FLOW_OUT_MAX });
	if (http_feed(&again, out.data, out.len, &err) == 1) {
		must(again.head.size == out.len && again.head.status == http->head.status);
		must(!http_header(&again.head, "set-cookie"));
		must(!http_header(&again.head, "service-worker-allowed"));
		must(!http_header(&again.head, "clear-site-data"));
		must(http_header_count(&again.head, "content-security-policy") > 0);
	}
	http_done(&again);
}

/* Chunks come out as chunks of the same data. */
static void body(struct http *http, const char *data, size_t len)
{
	struct flow flow;
	struct end from, to;
	char piece[FLOW_PIECE];
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	end_init(&from, -1);
	end_init(&to, pair[0]);
	flow_begin(&flow, BODY_CHUNKED, -1, &http->parser);
	buf_add(&from.in, data, len);
	int got = flow_pump(&flow, &from, &to, piece);
	must(got < 0 || flow.done || !end_held(&from) || end_pending(&to));
	ssize_t n = recv(pair[1], piece, sizeof piece, 0);
	if (got > 0 && flow.done && n > 0 && !end_pending(&to))
		must(n >= 5 && !memcmp(piece + n - 5, "0\r\n\r\n", 5));
	end_close(&to);
	end_close(&from);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct http http;
	struct err err;
	if (!size)
		return 0;
	bool asks = input[0] & 1;
	http_init(&http, -1, asks ? HTTP_REQUESTS : HTTP_RESPONSES, &limits);
	if (http_feed(&http, input + 1, size - 1, &err) == 1) {
		size_t head = http.head.size;
		(asks ? request : answer)(&http);
		if (http.head.chunked)
			body(&http, (const char *)input + 1 + head, size - 1 - head);
	}
	http_done(&http);
	return 0;
}
