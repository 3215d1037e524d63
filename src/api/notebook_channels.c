/* A client of Jupyter and a kernel: the WebSocket of one passes messages on to sockets of its own, so the kernel
 * itself tells clients apart, and asks the one for input whose code wants some. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/notebook_model.h"
#include "api/routes.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "code/kernels.h"
#include "kernel/kernel.h"
#include "kernel/kernel_message.h"
#include "kernel/kernel_wire.h"
#include "net/call.h"
#include "net/server.h"
#include "net/ws.h"

enum {
	MESSAGE_MAX = 64 << 20,
	HEARING_MS = 5000, /* for outputs to reach us before what the client asks is passed on */
	SEND_MS = 10000,   /* a client that takes nothing for so long is cut */
	KEEPALIVE_MS = 30000,
	ENDING_MS = 2000,
	/* A client gets so many bytes of outputs at once, and then so many a second: more would stop a browser, and
	 * wait in the kernel's memory. */
	OUTPUT_BURST = 32 << 20,
	OUTPUT_RATE = 4 << 20,
	OUTPUT_LEAST = 1 << 20, /* for each execution */
	OUTPUT_EACH = 512,      /* what a message counts at least */
	TURN = 256,             /* messages of a channel, before others have theirs */
};

struct channels {
	struct call *call;
	struct kernels_client client;
	struct kernel_link *link;
	int64_t hearing_ms; /* until then the client waits for us to hear the kernel */
	int64_t credit, credit_ms;
	bool dropped; /* outputs, since the last that was passed on */
	bool left;    /* the client has: what runs is only waited for */
	bool more;    /* messages are there that no descriptor tells of */
};

/* ---- to the client ---- */

static int send_message(struct channels *c, const struct kernel_wire *message, struct err *err)
{
	struct ws *ws = c->call->ws;
	auto_buf struct buf out = BUF((size_t)MESSAGE_MAX * 2);
	bool binary = true;
	bool written = c->call->subprotocol ? kernel_wire_write_v1(&out, message)
					    : kernel_wire_write_json(&out, message, &binary);
	return written ? ws_send(ws, binary ? WS_BINARY : WS_TEXT, out.data, out.len, err) : 0;
}

/* A message of iopub that no kernel has sent. */
static int send_own(struct channels *c, const char *type, const char *content,
		    const struct text *parent, struct err *err)
{
	struct kernel_wire message = { .channel = "iopub" };
	struct buf header;
	kernel_message_header(&header, "aio", c->call->id, type);
	message.parts[0] = (struct text){ header.data, header.len };
	message.parts[1] = parent ? *parent : (struct text){ "{}", 2 };
	message.parts[2] = (struct text){ "{}", 2 };
	message.parts[3] = (struct text){ content, strlen(content) };
	int result = send_message(c, &message, err);
	buf_done(&header);
	return result;
}

/* "restarting": the client is to connect again. "dead": it need not. */
static void send_state(struct channels *c, const char *state)
{
	struct err ignored;
	char content[64];
	snprintf(content, sizeof content, "{\"execution_state\":\"%s\"}", state);
	(void)send_own(c, "status", content, NULL, &ignored);
}

static bool is_output(const char *type)
{
	return strcmp(type, "status") != 0 && strcmp(type, "execute_input") != 0 &&
	       strncmp(type, "comm_", 5) != 0;
}

static size_t length(const struct kernel_wire *message)
{
	size_t sum = OUTPUT_EACH;
	for (size_t i = 0; i < KERNEL_WIRE_PARTS; i++)
		sum += message->parts[i].len;
	for (size_t i = 0; i < message->buffer_count; i++)
		sum += message->buffers[i].len;
	return sum;
}

/* Whether an output still fits what the client is to get. */
static bool is_affordable(struct channels *c, const struct kernel_wire *message)
{
	int64_t now = clock_ms(), more = (now - c->credit_ms) * OUTPUT_RATE / 1000;
	c->credit = c->credit + more < OUTPUT_BURST ? c->credit + more : OUTPUT_BURST;
	c->credit_ms = now;
	if (c->credit <= 0)
		return false;
	c->credit -= (int64_t)length(message);
	return true;
}

static int pass_output(struct channels *c, const struct kernel_wire *message, struct err *err)
{
	static const char text[] =
		"{\"name\":\"stderr\",\"text\":\"\\n[The output comes faster than it can be shown: some of it "
		"was left out.]\\n\"}";
	char type[MESSAGE_TYPE];
	kernel_wire_member(&message->parts[0], "msg_type", type, sizeof type);
	if (is_output(type) && !is_affordable(c, message)) {
		int result = c->dropped ? 0 : send_own(c, "stream", text, &message->parts[1], err);
		c->dropped = true;
		return result;
	}
	c->dropped &= !is_output(type);
	return send_message(c, message, err);
}

/* What runs is what an execute_request began, and not every question that is answered. */
static void note_state(struct channels *c, const struct kernel_wire *message)
{
	char type[MESSAGE_TYPE], asked[MESSAGE_TYPE], state[16];
	kernel_wire_member(&message->parts[0], "msg_type", type, sizeof type);
	kernel_wire_member(&message->parts[1], "msg_type", asked, sizeof asked);
	kernel_wire_member(&message->parts[3], "execution_state", state, sizeof state);
	if (strcmp(type, "status") != 0 || strcmp(asked, "execute_request") != 0)
		return;
	kernels_note_state(&c->client, !strcmp(state, "busy"));
	c->credit = c->credit > OUTPUT_LEAST ? c->credit : OUTPUT_LEAST;
}

static int pass_channel(struct channels *c, enum kernel_channel channel, struct err *err)
{
	struct kernel_wire message;
	int result = 0, turn = TURN;
	while (result == 0 && turn-- && kernel_link_recv(c->link, channel, &message)) {
		if (channel == CHANNEL_IOPUB)
			note_state(c, &message);
		if (!c->left)
			result = channel == CHANNEL_IOPUB ? pass_output(c, &message, err)
							  : send_message(c, &message, err);
	}
	c->more |= turn < 0;
	return result;
}

static int pass_all(struct channels *c, struct err *err)
{
	/* Outputs before the reply that comes after them. */
	static const enum kernel_channel order[] = { CHANNEL_IOPUB, CHANNEL_SHELL, CHANNEL_STDIN,
						     CHANNEL_CONTROL };
	for (size_t i = 0; i < COUNT(order); i++)
		if (pass_channel(c, order[i], err) < 0)
			return -1;
	return 0;
}

/* ---- from the client ---- */

/* One that is wrong, or for no channel, is left out, as Jupyter does. */
static int take_message(struct channels *c, const struct ws_message *given, struct err *err)
{
	auto_buf struct buf keep = BUF(0);
	struct kernel_wire message;
	char type[MESSAGE_TYPE];
	bool binary = given->opcode == WS_BINARY;
	int result = c->call->subprotocol && binary
			     ? kernel_wire_read_v1(given->data, given->len, &message, err)
			     : kernel_wire_read_json(given->data, given->len, binary, &keep,
						     &message, err);
	if (result < 0)
		return 0;
	kernel_wire_member(&message.parts[0], "msg_type", type, sizeof type);
	if (!strcmp(type, "execute_request"))
		kernels_note_request(&c->client);
	result = kernel_link_send(c->link, &message, err);
	return result < 0 && err->code == ERR_BAD_REQUEST ? 0 : result;
}

/* 1: go on, 0: the client has left. */
static int take_all(struct channels *c, struct err *err)
{
	struct ws_message message;
	do {
		int got = ws_recv(c->call->ws, &message, 0, err);
		if (got < 0 && err->code == ERR_SLOW)
			return 1;
		if (got <= 0 || take_message(c, &message, err) < 0)
			return 0;
	} while (ws_pending(c->call->ws));
	return 1;
}

/* ---- both ---- */

static int64_t wait_until_ms(const struct channels *c, bool hears)
{
	if (c->more)
		return 0;
	if (!hears)
		return c->hearing_ms;
	int ms = c->left ? -1 : ws_pending(c->call->ws) ? 0 : ws_wait_ms(c->call->ws);
	return ms < 0 ? INT64_MAX : clock_ms() + ms;
}

enum step { GOES_ON, KERNEL_ENDED, CLIENT_LEFT, OVER };

static enum step step(struct channels *c, struct err *err)
{
	struct pollfd fds[KERNEL_LINK_FDS + 1];
	bool hears = kernel_link_hears(c->link) || clock_ms() >= c->hearing_ms;
	if (!kernel_link_poll(c->link, fds)) {
		(void)pass_all(c, err); /* its last words */
		return KERNEL_ENDED;
	}
	fds[KERNEL_LINK_FDS] = (struct pollfd){ .fd = hears && !c->left ? ws_fd(c->call->ws) : -1,
						.events = POLLIN };
	const struct wait wait = { wait_until_ms(c, hears), -1, server_stop_fd(c->call->server) };
	enum wake wake = wait_stream(&wait, fds, COUNT(fds));
	c->more = false;
	if (wake > WAKE_TIMEOUT)
		return OVER;
	if (pass_all(c, err) < 0)
		return CLIENT_LEFT;
	return hears && !c->left && take_all(c, err) == 0 ? CLIENT_LEFT : GOES_ON;
}

/* A page that is closed leaves what runs alone, and its kernel is in use until that has ended. */
static void await_idle(struct channels *c)
{
	struct err err;
	c->left = true;
	ws_close(c->call->ws, WS_NORMAL, NULL);
	(void)shutdown(ws_fd(c->call->ws), SHUT_RDWR);
	while (kernels_stays(&c->client) && step(c, &err) == GOES_ON)
		;
}

/* Its sockets close a moment before it has ended. Where they broke and it lives on, the client just connects
 * again. */
static void report_end(struct channels *c)
{
	struct pollfd fds[KERNEL_LINK_FDS];
	(void)kernel_link_poll(c->link, fds);
	if (wait_until(fds[KERNEL_LINK_FDS - 1].fd, POLLIN, clock_ms() + ENDING_MS))
		send_state(c, kernels_is_closed(&c->client) ? "dead" : "restarting");
}

static void run(struct channels *c)
{
	struct err err;
	enum step last;
	c->hearing_ms = clock_ms() + HEARING_MS;
	c->credit = OUTPUT_BURST;
	c->credit_ms = clock_ms();
	while ((last = step(c, &err)) == GOES_ON)
		;
	if (last == KERNEL_ENDED)
		report_end(c);
	if (last == CLIENT_LEFT)
		await_idle(c);
}

/* A close frame has room for no more. */
static int refuse(struct channels *c, const struct err *cause)
{
	char reason[120];
	snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, cause->msg);
	send_state(c, "dead");
	ws_close(c->call->ws, WS_INTERNAL_ERROR, reason);
	return 0;
}

struct notebook_channels {
	const char *id, *session_id;
};
static const struct field channels_fields[] = {
	STR(notebook_channels, id, PATH | REQUIRED, "The kernel.", .max_len = 64),
};
static const struct schema channels_schema =
	SCHEMA(notebook_channels, "NotebookChannels", channels_fields);

static int attach(struct call *call, const void *in, struct err *err)
{
	const struct notebook_channels *request = in;
	struct channels c = { .call = call };
	ws_set_max_message(call->ws, MESSAGE_MAX);
	ws_set_send_timeout_ms(call->ws, SEND_MS);
	ws_set_keepalive_ms(call->ws, KEEPALIVE_MS);
	if (notebook_allowed(err) < 0 || kernels_attach(call, request->id, &c.client, err) < 0)
		return refuse(&c, err);
	c.link = kernel_link_open(c.client.kernel, err);
	if (c.link)
		run(&c);
	else
		(void)refuse(&c, err);
	kernel_link_free(c.link);
	kernels_detach(&c.client);
	return 0;
}

static const struct route routes[] = {
	{ "GET", "/jupyter/api/kernels/{id}/channels", attach, &channels_schema,
	  .summary = "Speak to a kernel", .flags = UPGRADE | INTERNAL, .type = KERNEL_WIRE_V1 },
};
const struct route_group notebook_channels_group = { "notebook", "JupyterLab.", routes,
						     COUNT(routes) };
