#include "document/reply.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"

static const struct {
	const char *name;
	int code;
} problems[] = {
	{ "invalid", ERR_INVALID },
	{ "too_large", ERR_TOO_LARGE },
	{ "bad_request", ERR_BAD_REQUEST },
	{ "not_found", ERR_NOT_FOUND },
	{ "missing", ENOENT },
	{ "denied", EACCES },
	{ "unavailable", ERR_UNAVAILABLE },
};

static size_t length(const unsigned char *at)
{
	return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

int reply_head(const unsigned char head[REPLY_HEAD], size_t text_max, size_t *ret_facts,
	       size_t *ret_text, struct err *err)
{
	size_t facts = length(head + 4), text = length(head + 8);
	if (memcmp(head, "AIOD", 4) != 0 || facts > REPLY_FACTS_MAX)
		return err_set(err, ERR_UNAVAILABLE, "the document worker does not make sense");
	if (text > text_max)
		return err_set(err, ERR_TOO_LARGE, "the text is longer than %zu MiB",
			       text_max >> 20);
	*ret_facts = facts;
	*ret_text = text;
	return 0;
}

static int told(const json_t *facts, const char *kind, struct err *err)
{
	const char *message = json_string_value(json_object_get(facts, "message"));
	int code = ERR_INVALID;
	for (size_t i = 0; i < COUNT(problems); i++)
		if (!strcmp(problems[i].name, kind))
			code = problems[i].code;
	err_set(err, ERR_INVALID, "%s", message ? message : "the document cannot be read");
	if (err)
		err->code = code; /* by itself: the message is whole already */
	return -1;
}

int reply_facts(char *json, size_t len, json_t **ret_metadata, struct err *err)
{
	json_t *facts = json_parse(json, len, NULL);
	if (!json_is_object(facts)) {
		json_decref(facts);
		return err_set(err, ERR_UNAVAILABLE, "the document worker does not make sense");
	}
	const char *kind = json_string_value(json_object_get(facts, "error"));
	int result = kind ? told(facts, kind, err) : 0;
	if (result == 0) {
		json_t *metadata = json_object_get(facts, "metadata");
		*ret_metadata = json_is_object(metadata) ? json_incref(metadata) : json_object();
	}
	json_decref(facts);
	return result;
}
