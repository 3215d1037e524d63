/* limits.h - what a box may use: the fields of a request, and which values make sense here. */
#pragma once
#include <jansson.h>

struct err;
struct host;

struct limits;
extern const struct schema limits_schema;

/* Whether `limits` (as limits_schema has them; absent or 0: none) can be held on this machine, and a
 * box can work with them. `prefix` stands before the name that err tells: "limits." or "--". */
int limits_check(const struct host *host, const json_t *limits, const char *prefix,
		 struct err *err);
