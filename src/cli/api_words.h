/* api_words.h - the words of a command line as the request that a verb makes. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "cli/endpoint.h"
#include "cli/verbs.h"

struct err;

struct api_wish {
	const struct api_verb *verb;
	struct endpoint_flags where;
	const char *output; /* -o; NULL: none */
	bool json, plain, help;
	json_t *fields; /* by name, wherever they stand in the request */
};

/* Takes the words behind the verb. -1 for wrong usage. */
int api_words(struct api_wish *wish, int argc, char **argv, struct err *err);

/* Whether the answer is a file, or text that is no JSON: then there is -o. */
bool api_gives_file(const struct route *route);
