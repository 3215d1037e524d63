/* sandboxes.h - what the groups of the lifecycle API share. */
#pragma once
#include <stdint.h>

struct arena;
struct box;
struct call;
struct err;

/* A request that only names a sandbox, in its path. */
struct sandbox_id {
	const char *id;
};
extern const struct schema sandbox_id_schema;

/* The box of that id, for as long as the call lives. */
struct box *sandbox_find(struct call *call, const char *id, struct err *err);

/* A moment of the wall clock, ISO 8601. */
const char *sandbox_when(struct arena *arena, int64_t ms);
