/* network.h - the network of a box that has one: opened when the box has begun, closed when it has
 * ended. For the short-lived processes that make and unmake boxes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "box/box.h"

struct err;

struct network_spec {
	const char *dir; /* of the box, where its way out keeps what it tells */
	enum box_network mode;
	pid_t pid;         /* of the box's init */
	uint32_t host;     /* differs between hosts of a machine */
	unsigned number;   /* of the box, its own */
	uint32_t user;     /* of its way out: nobody else is it */
	const char *allow; /* names, separated by commas: for BOX_NETWORK_ALLOW */
	const char *nets;  /* networks that may be reached though they are not public; NULL: none */
};

/* By which means there is BOX_NETWORK_FULL, or NULL. */
const char *network_full(void);

int network_open(const struct network_spec *spec, struct err *err);

/* Where the rules of boxes have to follow the machine's addresses: a descriptor that tells of changes;
 * else -1. The boxes with BOX_NETWORK_FULL are to be updated after each. */
int network_watch(void);
bool network_changed(int fd); /* since it was last asked */
int network_update(const struct network_spec *spec, struct err *err);

/* After a crash, of the host or of what it started for the box: what still works, and reaches what it
 * should, is left alone. */
bool network_works(const char *dir, enum box_network mode);
int network_repair(const struct network_spec *spec, struct err *err);
void network_close(const char *dir, enum box_network mode, uint32_t host, unsigned number);

/* Bytes into and out of the box so far, by way of the relay. */
void network_bytes(const char *dir, int64_t *ret_in, int64_t *ret_out);

/* Calls fn with lines (of JSON) of what was denied since *at, which moves on; NULL: skips them. */
void network_denied(const char *dir, int64_t *at, void (*fn)(const char *line, void *arg),
		    void *arg);
