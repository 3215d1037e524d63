/* relay.h - one request and its response, passed on between a client and a server, neither of which is
 * trusted to keep to HTTP.
 *
 * The state machine alone: it makes no system call. Its ends are read and written as flow.h says, and
 * whoever drives it waits for them: the host's loops by epoll, a connection's thread by poll(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/flow.h"
#include "net/head.h"

struct err;
struct http;
struct http_head;
struct http_limits;

struct relay {
	struct end *client, *server; /* the owner's; they may outlive the relay */
	struct flow up, down;

	/* Of the request. */
	bool keep_alive; /* the client's connection goes on; false once the response ends with it */
	bool http10, head_only, get, upgrade;
	bool splice;      /* neither end blocks: see flow.h */
	size_t head_size; /* of its head, while client->in still holds it: it can be sent again */
	struct head_response
		head; /* how heads of the response are written: all but their framing */
	/* Looks at the head of the response, before it is passed on: true for RELAY_AGAIN, to ask for
	 * another one. NULL: nobody does. */
	bool (*look)(void *arg, const struct http_head *head);
	void *look_arg;

	/* Of the response. */
	bool answered, tunnel;         /* it has begun; both sides have switched protocols */
	bool events;                   /* a GET is answered with these: endless */
	bool last;                     /* the server's stream ends with it */
	int status, interim;           /* its status; how many responses 1xx came before */
	bool told_server, told_client; /* one end has heard that the other sends no more */
	int64_t moved_ms;              /* when the last byte moved */
};

/* What a driver lends for a while. */
struct relay_tools {
	struct http *http; /* for one head at a time; initialised, or zero */
	const struct http_limits *limits;
	char *piece; /* FLOW_PIECE bytes */
	int64_t now_ms;
};

/* Sets what a relay has of the request; the caller may then change it. */
void relay_init(struct relay *relay, const struct http_head *request);

/* Begins: the head for the server is in server->out, http has just read the client's, and the body's
 * first bytes are in client->in (behind the head, where head_size says that it is still there). */
void relay_begin(struct relay *relay, const struct http *http, int64_t now_ms);

/* Begins a tunnel, after the answer to a CONNECT: bytes both ways, those in client->in and server->in first. */
void relay_tunnel(struct relay *relay, int64_t now_ms);

enum relay_step {
	RELAY_WAITS, /* nothing can be done until an end is ready */
	RELAY_MOVED,
	RELAY_DONE,   /* the response is passed on; its last bytes may still be in client->out */
	RELAY_CUT,    /* the client is gone, or one of the bodies was cut short or malformed */
	RELAY_CLOSED, /* the server closed its stream without a response */
	RELAY_WRONG,  /* the server sent something that cannot be passed on as a response */
	RELAY_AGAIN,  /* look() wants another response: nothing of this one was passed on */
};

/* Goes on by one step. For RELAY_CLOSED and RELAY_WRONG *ret_why says what the server did: "sent …". */
enum relay_step relay_step(struct relay *relay, const struct relay_tools *tools,
			   const char **ret_why);

/* Whether more of the client's, and the server's, bytes can be taken now. What is to be written says
 * end_pending(). */
bool relay_reads_client(const struct relay *relay);
bool relay_reads_server(const struct relay *relay);

enum relay_fault {
	RELAY_IN_TIME,
	RELAY_STUCK, /* an end takes nothing of what it is sent, or a tunnel's end is not answered */
	RELAY_SLOW_CLIENT, /* its body does not arrive */
	RELAY_SLOW_SERVER, /* the first byte of its response does not arrive */
};

/* How long nothing may move; 0: for ever. */
struct relay_patience {
	int64_t send_ms, tunnel_send_ms, body_ms, first_ms;
};

/* What it waits for now that can take too long, and until when at most (INT64_MAX: for ever). */
enum relay_fault relay_waits_for(const struct relay *relay, const struct relay_patience *patience,
				 int64_t *ret_until_ms);

/* Reads a head at the beginning of what an end holds: 1 when it is whole, 0 when more is needed, -1. */
int relay_head(struct end *end, bool request, const struct relay_tools *tools, struct err *err);
