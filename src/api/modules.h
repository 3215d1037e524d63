/* modules.h - what lives longer than a request: one row for each part of a box server that has to be
 * started, ended or counted. */
#pragma once
#include <stddef.h>

struct arena;
struct buf;
struct server;
struct sessions;

struct module {
	struct sessions *sessions;            /* counted, and closed before end(); NULL: none */
	void (*start)(struct server *server); /* before the first request */
	void (*stop)(void); /* while requests may still run: ends what they wait for */
	void (*end)(void);  /* when none does */
	void (*metrics)(struct buf *to, struct arena *arena); /* beside the number of sessions */
};

/* In the order in which they end. */
extern const struct module modules[];
extern const size_t modules_count;

/* Of services, in metrics.c with the others. */
void metrics_services(struct buf *to, struct arena *arena);

void modules_start(struct server *server);
void modules_stop(void);
void modules_end(void);
