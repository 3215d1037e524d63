/* flags.h - the flags of a command that calls a declared operation: from the same table of fields. */
#pragma once
#include <jansson.h>

struct err;
struct schema;

/* Takes argv[*at…] while they are flags of the schema's body fields ("idle_timeout" is
 * --idle-timeout; the fields of an object stand for themselves) and adds what they say to `to`. Stops
 * at the first that is none. */
int flags_parse(const struct schema *schema, int argc, char **argv, int *at, json_t *to,
		struct err *err);

/* Where a message begins with a field ("limits.disk: …") that a flag sets, it begins with the flag then. */
void flags_name(const struct schema *schema, struct err *err);

/* Their part of the help, on stdout. */
void flags_help(const struct schema *schema);
