/* verbs.h - the operations of a sandbox's API as words of a command line, named after the routes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/desc.h"
#include "net/route.h"

enum { VERB_NAME_MAX = 80, VERB_ARGUMENTS = 4 };

/* What the route's table does not say. */
struct verb_note {
	const char *route; /* "POST /v1/file/read"; of a union, with its tag behind */
	const char *name;  /* NULL: made from the path; "": the route has no verb */
	const char
		*arguments;  /* fields that need no flag, in order; NULL: those that are required */
	const char *input;   /* the argument that standard input gives where it is absent or "-" */
	const char *show;    /* the part of the answer that people want */
	const char *columns; /* of its table; NULL: those that it has */
};

struct api_verb {
	char name[VERB_NAME_MAX]; /* "browser tabs open" */
	const struct route *route;
	const struct variant *variant; /* of a request that is a union: what it asks for */
	const struct schema *in;       /* NULL: it takes nothing */
	const struct verb_note *note;  /* never NULL */
	const struct field *arguments[VERB_ARGUMENTS];
	size_t argument_count;
};

struct verb_group {
	const char *name, *about;
};
extern const struct verb_group verb_groups[]; /* ends with a NULL name */

/* All of them, those of a group side by side. */
const struct api_verb *verbs_all(size_t *ret_count);

/* The verb that the words begin with, and how many of them it takes; NULL: none. */
const struct api_verb *verbs_find(int argc, char *const *argv, int *ret_words);

/* The name without its group. */
const char *verbs_own(const struct api_verb *verb);

/* Whether a field is one of the command line. */
bool verbs_has(const struct field *field);

/* Whether the last argument takes all words that are left. */
static inline bool verbs_takes_many(const struct api_verb *verb)
{
	return verb->argument_count && verb->arguments[verb->argument_count - 1]->type == T_LIST;
}

/* "FILE [CONTENT]" */
void verbs_usage(const struct api_verb *verb, struct buf *to);
