/* pool.h - kernels that are ready before they are asked for.
 *
 * Each Python that kernels are wanted of has a fork server (share/kernel/forkserver.py), started with
 * the first wish, which keeps one initialised kernel ready. Taking it starts the next one. */
#pragma once
#include <stdint.h>

struct err;
struct kernel;
struct kernel_place;
struct wait;
struct kernelspec;
struct user;

/* What fork servers are started with. */
struct pool_config {
	const char *home;    /* the product's */
	const char *preload; /* modules, separated by commas; may be NULL */
	const struct user *user;
};

/* A kernel of the spec, in its place, with a reference. Python's come from a fork server; where that
 * is not possible, and for all others, a program is started. */
struct kernel *pool_take(const struct pool_config *config, const struct kernelspec *spec,
			 const struct kernel_place *place, const struct wait *wait,
			 struct err *err);

/* Has a kernel made ready, without waiting; not where processes are short. */
int pool_warm(const struct pool_config *config, const struct kernelspec *spec, struct err *err);

/* Ends the fork servers that were not asked for so long, with their ready kernels. */
void pool_rest(int64_t idle_ms);

/* Ends all of them, and waits for it. */
void pool_end(void);
