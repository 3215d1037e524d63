/* body.h - the body of a request into its struct: JSON, or a form whose files go to disk. */
#pragma once
#include <stdbool.h>

struct arena;
struct conn;
struct err;
struct problems;
struct route;

/* Whether a route takes anything from the body. */
bool body_wanted(const struct route *route);

/* Reads the body of conn's request and fills the fields of `to` that stand in it. 0, or -1 with the
 * error to answer; what is wrong with fields goes to problems. */
int body_read(struct conn *conn, const struct route *route, struct arena *arena, void *to,
	      struct problems *problems, struct err *err);
