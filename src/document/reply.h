/* reply.h - what the document worker answers: a head with two lengths, facts as JSON, and text. The
 * worker has read a document that may be hostile, so nothing of it is believed. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct err;

enum { REPLY_HEAD = 12, REPLY_FACTS_MAX = 4 << 20 };

/* Takes the lengths from a head. -1 where it is none, or where they are beyond what is allowed. */
int reply_head(const unsigned char head[REPLY_HEAD], size_t text_max, size_t *ret_facts,
	       size_t *ret_text, struct err *err);

/* Takes the facts, changing them on the way: 0, with *ret_metadata a new object; or -1 with the error
 * that the worker tells. */
int reply_facts(char *json, size_t len, json_t **ret_metadata, struct err *err);
