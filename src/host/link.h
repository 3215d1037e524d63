/* link.h - one client's connection to the host, and its stream to the box it is talking to. Owned by
 * one loop. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/gateway.h"
#include "net/http.h"
#include "net/relay.h"

struct loop {
	const struct gateway_config *config;
	struct gateway *gateway;
	pthread_t thread;
	int epoll_fd, wake_fd;
	struct link *links, *dead;
	size_t count;
	bool stopping;
	int64_t now_ms;
	int64_t accept_ms; /* when new connections are looked for again; 0: they are */
	int look_us;       /* how long the next event is looked for before the loop sleeps */
	struct http http;  /* for one head at a time */
	struct http_limits limits;
	char piece[FLOW_PIECE];
};

enum phase {
	AT_HEAD, /* waits for a request */
	PARKED,  /* its box is being brought back; the request is held */
	RELAYING,
	LINGERING, /* answered; what the client still sends is dropped for a moment */
	DEAD,
};

struct link {
	struct loop *loop;
	struct link *previous, *next, *next_dead;
	bool buried;
	enum phase phase;
	struct end client, box;
	struct box *target; /* whose stream `box` is; NULL: the host's own server, or none */
	struct relay relay; /* between them */

	/* The request. */
	bool repeatable;
	bool fresh;   /* its stream is not one that was used before */
	bool to_host; /* its stream is to the host's own server */
	bool counted; /* among the box's active requests */
	bool anonymous; /* may be answered, but is no use of a box: neither wakes it nor keeps it awake */
	bool hung;  /* the client sends no more */
	bool woken; /* its box was asked to come back */
	char *prefix, *cookie;
	char *runs; /* the path of a request that runs something, until that is in the history */
	struct buf tap;   /* of its body */
	char *answer;     /* the host's own, instead of an error's */
	int64_t since_ms; /* of the phase */
	size_t untaken;   /* of what waited for an end, when that was last looked at */
	char peer[48];
};

struct link *link_new(struct loop *loop, int fd, const char *peer);
void link_free(struct link *link);

/* Whether the connection ends with an answer of the host itself: a body that has not come yet is not
 * waited for. */
bool link_closes(const struct link *link, const struct http_head *head);

/* Closes one of its ends. A process that was forked a moment ago has the descriptor too, so closing it
 * does not take it out of epoll, which would go on to name a link that is no more. */
void link_close(struct link *link, struct end *end);

/* Goes on as far as it can; `fired` are the events of the client's end and of the box's. */
void link_run(struct link *link, uint32_t client_fired, uint32_t box_fired);

/* Ends what took too long. */
void link_expire(struct link *link);

/* ---- front.c ---- */

/* Decides about the request whose head is in loop->http: fills link and the head for the box in
 * link->box.out, its stream open. -1 with err: to be refused. 1: its box is not ready, wait. */
int front_decide(struct link *link, struct err *err);

/* The body of a request that runs something has gone by, or enough of it: has it in the history. */
void front_ran(struct link *link);

/* Ends the request's accounts with its box. */
void front_done(struct link *link);
/* Gives the stream to the box back. */
void front_leave(struct link *link);
