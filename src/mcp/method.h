/* method.h - the requests and notifications that a server answers, as a table. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct err;
struct exchange;
struct exchange_from;

enum method_flag {
	METHOD_CACHED = 1 << 0,  /* its result says how long it is good for */
	METHOD_SESSION = 1 << 1, /* only in revisions with sessions */
	METHOD_MODERN = 1 << 2,  /* only in the revision without */
};

struct method {
	const char *name;
	/* Writes the members of the result to ex->jw. -1 with err, or after exchange_fail(). */
	int (*serve)(struct exchange *ex, struct err *err);
	unsigned flags;
	int ttl_ms;
	bool (*is_slow)(const struct exchange *ex); /* needs a thread of its own; NULL: never */
};

/* The method of a request: never NULL, for there is one that refuses. */
const struct method *method_find(const struct exchange *ex);

/* Takes what a client only tells. */
void method_notified(const struct exchange_from *from, const json_t *message);
