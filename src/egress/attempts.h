/* attempts.h - what programs in boxes without a network try to reach by address. Such a box has no route, so
 * there is no packet that could be refused and reported: a BPF program of the cgroup that all boxes are in
 * sees connect() and sendto(), and changes nothing about them. It costs a box nothing but an entry of a map.
 * Only root of the machine may have one; elsewhere nothing is seen. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct attempts;
struct err;

/* So many wait to be read; further ones are lost. */
enum { ATTEMPTS_MAX = 4096 };

struct attempt {
	struct in6_addr to; /* an IPv4 address as one of ::ffff:0:0/96 */
	uint32_t port;
	uint32_t unused;
	uint64_t group; /* the number of the cgroup that it was made in */
};

/* groups: the directory of a cgroup (v2), whose descendants can be watched. NULL with err: not here. */
struct attempts *attempts_open(int groups, struct err *err);
void attempts_close(struct attempts *attempts);

/* Has those of one cgroup (the number of its directory's inode) reported from now on, or no longer. Of each
 * at most some 20 a second are, after 100 at once. */
void attempts_watch(struct attempts *attempts, uint64_t group);
void attempts_forget(struct attempts *attempts, uint64_t group);

/* The next one. False: there is none now. */
bool attempts_next(struct attempts *attempts, struct attempt *ret);
