/* hub_check.h - what other servers say, made fit to be passed on. */
#pragma once
#include <jansson.h>

enum { HUB_NAME_MAX = 128 }; /* of a tool */

/* A tool as we dare to pass it on: new; NULL for one that cannot be. What a server claims its results
 * look like is left out: clients would refuse honest results because of a false claim. */
json_t *hub_check_tool(const json_t *tool);

/* A result as we dare to pass it on: of the right shape, and not too large. Takes it over. */
json_t *hub_check_result(const char *server, json_t *result);

/* The result of a call that failed. */
json_t *hub_check_failed(const char *text);
