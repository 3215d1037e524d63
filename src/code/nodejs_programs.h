/* nodejs_programs.h - which Node.js there are, and what they can do. */
#pragma once
#include <stdbool.h>

#include "net/route.h"

struct node_where;

/* The Node.js of a version ("node22", "22"), or without one that which is found first. What ret points
 * to lives as long as the call. */
int nodejs_programs_pick(struct call *call, const char *version, bool typescript,
			 struct node_where *ret, struct err *err);

handler nodejs_programs_info;
extern const struct field nodejs_programs_data; /* what it answers */

/* The version ("24.1.0") of the Node.js that is found first, in the call's arena; NULL: none. */
const char *nodejs_version(struct call *call);
