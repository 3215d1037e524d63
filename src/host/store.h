/* store.h - what the host must not forget: its boxes and their histories, in SQLite.
 *
 * One thread writes. What several callers bring at once becomes one transaction, so that a hundred
 * boxes cost a few syncs of the disk, not a hundred. */
#pragma once
#include <stdint.h>

struct err;
struct store;

/* SQLite is loaded here, not linked: a box server never needs it. */
struct store *store_open(const char *path, struct err *err);
void store_close(struct store *store); /* writes what is left; NULL is fine */

/* Durable when they return. doc is JSON. */
int store_put(struct store *store, const char *id, const char *doc, struct err *err);
int store_delete(struct store *store, const char *id, struct err *err);

/* Soon. Only the newest `keep` of a box stay. */
void store_event(struct store *store, const char *id, int64_t seq, int64_t at_ms, const char *type,
		 const char *data, int64_t keep);

/* Everything there is, or an error: boxes in the order of their creation, then events in the order of
 * time. */
struct store_reader {
	int (*box)(void *arg, const char *id, const char *doc, struct err *err);
	void (*event)(void *arg, const char *id, int64_t seq, int64_t at_ms, const char *type,
		      const char *data);
	void *arg;
};
int store_load(struct store *store, const struct store_reader *reader, struct err *err);
