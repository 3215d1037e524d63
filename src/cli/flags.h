/* flags.h - the flags of a command that calls a declared operation: from the same table of fields. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct err;
struct field;
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

/* ---- one flag ---- */

/* Puts what the text says into `to`; of a list or map, beside what is there. -1: it is not of the type. */
int flags_set(const struct field *field, const char *text, json_t *to);

/* Says what a value must be, for the flag or argument that is called so; value NULL: there is none. */
int flags_refuse(const struct field *field, const char *flag, int len, const char *value,
		 struct err *err);

const char *flags_argument(const struct field *field); /* " N", "" */

/* explained: what a duration is, which the first one says for all. */
void flags_print(const struct field *field, bool *explained);
