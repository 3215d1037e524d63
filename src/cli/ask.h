/* ask.h - one command that speaks to the host: what it was given, and the calls that many make. */
#pragma once
#include <jansson.h>

#include "base/err.h"
#include "cli/remote.h"

struct ask {
	struct remote remote;
	const char *verb;
	int argc; /* what is left of the arguments, names first */
	char **argv;
	json_t *fields;
	struct err err;
};

/* Calls the host about the box that argv[0] names; body may be NULL (given up). As remote_call(). */
json_t *ask_box(struct ask *ask, const char *method, const char *what, json_t *body);

/* All boxes, however many, in the order of their creation: a new array, or NULL. */
json_t *ask_boxes(struct ask *ask);

/* A string of an answer; NULL: it has none of that name. */
static inline const char *ask_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* What a sandbox chose of a text does nothing to a terminal: '?' takes the place of control characters (of
 * line ends and tabs too, but for `lines`) and of those that are not seen. */
void ask_make_plain(char *text, size_t len, bool lines);

/* For programs: on stdout. A terminal gets the same in ASCII. */
void ask_print(const json_t *value);
