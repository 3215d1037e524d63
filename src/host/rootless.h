/* rootless.h - the host of an ordinary user: it runs as root of a user namespace that has this user's
 * subordinate ids, under their own numbers, and is from there on what a host is. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;

/* Goes on as "aio ARGV…" in that namespace: in the one that boxes of this state directory still run
 * in, or in a new one. Returns when something is missing, after printing all of it by name. */
int rootless_enter(const char *state, char **argv, struct err *err);

/* The ranges that a file such as /etc/subuid gives a user: pure. */
struct subids {
	uint32_t first, count;
};
size_t rootless_subids(const char *text, const char *name, uint32_t uid, struct subids *to,
		       size_t room);
