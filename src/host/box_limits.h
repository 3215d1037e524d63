/* box_limits.h - what a box may use: the fields of a request, of struct box_limits, and which values make sense
 * here. Another limit is a member there, a field and a row in limits.c, an option of the default box
 * (options.c), and whatever holds it (box/limit.c). */
#pragma once
#include <jansson.h>

struct box_limits;
struct err;
struct host;

extern const struct schema box_limits_schema;

/* Whether what was asked for (as box_limits_schema has it; absent or 0: none) can be held on this machine, and a
 * box can work with them. `prefix` stands before the name that err tells: "limits." or "--". */
int box_limits_check(const struct host *host, const json_t *asked, const char *prefix,
		     struct err *err);

/* Whether the machine's disk is as large as the limit of it: one beyond all that there is would be none. */
int box_limits_fit(const struct host *host, const json_t *asked, const char *prefix,
		   struct err *err);

/* As box_limits_schema has them; new. */
json_t *box_limits_json(const struct box_limits *from);

/* What a box gets that asked for those: one that was given no limit leaves most of what the machine can
 * have to others. */
struct box_limits box_limits_of(const struct host *host, const json_t *asked);
