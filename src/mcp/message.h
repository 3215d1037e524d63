/* message.h - telling right messages of JSON-RPC from wrong ones. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

/* Why something is no message; NULL: it is one. */
const char *message_problem(const json_t *message);

/* The id to answer with: NULL for one that cannot be an id. */
const json_t *message_id(const json_t *id);

/* Whether a message itself says that it is of the revision without sessions. */
bool message_is_modern(const json_t *message);

struct message_problem {
	int code;
	const char *text;
	json_t *data; /* owned; NULL: none */
};

/* Whether a message of that revision says all it has to: 0, or -1 with what is wrong. The version is
 * looked at last, by message_check_version(). */
int message_check_meta(const json_t *message, struct message_problem *ret);
int message_check_fields(const json_t *message, struct message_problem *ret);
int message_check_version(const json_t *message, struct message_problem *ret);
