/* bridge.h - calling a route's handler without HTTP. */
#pragma once
#include <jansson.h>

#include "base/buf.h"

struct arena;
struct err;
struct exchange;
struct route;
struct route_group;
struct schema;

struct picture_size {
	int width, height;
};

/* What a handler answered, of which pictures have more in headers. */
struct bridge_answer {
	int status;
	char type[128];
	struct picture_size image, whole; /* of a picture, and of what it shows; 0: not said */
	double scale;                     /* of a picture that was made smaller; else 1 */
	char notice[200];                 /* what is to be known of it */
	struct buf body;
};

enum { BRIDGE_BODY_MAX = 48 << 20 };

/* Calls a route with the members of an object as its fields, wherever they stand in a request. -1
 * with err: what was wrong with the fields, or the handler's error. Free the body with buf_done(). */
int bridge_call(struct exchange *ex, const struct route *route, const json_t *args,
		struct bridge_answer *ret, struct err *err);

/* Fills a struct, which lives in the arena, from the members of an object. -1 with what is wrong. */
int bridge_decode(const struct schema *schema, const json_t *args, struct arena *arena, void **ret,
		  struct err *err);

/* "POST /v1/bash/exec": the route among these groups, or NULL. */
const struct route *bridge_find(const struct route_group *const *groups, const char *route);
