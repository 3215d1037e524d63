/* rpc_message.h - telling right messages of JSON-RPC from wrong ones. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

/* Why something is no message; NULL: it is one. */
const char *rpc_message_why_invalid(const json_t *message);

/* The id to answer with: NULL for one that cannot be an id. */
const json_t *rpc_message_id(const json_t *id);

/* Whether a message itself says that it is of the revision without sessions. */
bool rpc_message_is_modern(const json_t *message);

struct rpc_message_problem {
	int code;
	const char *text;
	json_t *data; /* owned; NULL: none */
};

/* Whether a message of that revision says all it has to: 0, or -1 with what is wrong. The version is
 * looked at last, by rpc_message_check_version(). */
int rpc_message_check_meta(const json_t *message, struct rpc_message_problem *ret);
int rpc_message_check_fields(const json_t *message, struct rpc_message_problem *ret);
int rpc_message_check_version(const json_t *message, struct rpc_message_problem *ret);
