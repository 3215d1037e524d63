/* json.h - JSON read through a cheap pre-scan, and JSON written as a stream. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

enum { JSON_DEPTH_MAX = 64, JSON_VALUES_MAX = 1000000 };

/* Parses text, which is changed on the way: one pass caps depth and number of values (64 MiB of
 * "[{},{},…]" would cost jansson 5 GiB) and repairs what jansson refuses but peers do send: lone
 * surrogates and NUL in keys become U+FFFD, integers beyond 64 bits become reals. NULL on error,
 * with ret_at (may be NULL) at the offending byte; free with json_decref(). */
json_t *json_parse_at(char *text, size_t len, size_t *ret_at, struct err *err);

static inline json_t *json_parse(char *text, size_t len, struct err *err)
{
	return json_parse_at(text, len, NULL, err);
}

/* A writer: appends to its buffer, and hands the buffer to flush whenever it holds FLUSH bytes.
 * Without flush everything stays in the buffer. Errors stick: check jw_failed() at the end. */
struct jw {
	struct buf out;
	int (*flush)(void *arg, const char *data, size_t len);
	void *arg;
	bool comma, failed;
};

enum { JW_FLUSH = 65536 };

void jw_init(struct jw *jw, size_t cap);
void jw_done(struct jw *jw);
bool jw_failed(const struct jw *jw);

void jw_open(struct jw *jw, char bracket);  /* '{' or '[' */
void jw_close(struct jw *jw, char bracket); /* '}' or ']' */
void jw_key(struct jw *jw, const char *key);
void jw_str(struct jw *jw, const char *text); /* NULL becomes null */
void jw_text(struct jw *jw, const char *text,
	     size_t len); /* any bytes: U+FFFD for what is not UTF-8 */
void jw_int(struct jw *jw, int64_t value);
void jw_num(struct jw *jw, double value); /* null for what JSON cannot say */
void jw_bool(struct jw *jw, bool value);
void jw_null(struct jw *jw);
void jw_raw(struct jw *jw, const char *json, size_t len); /* one value, already JSON */
void jw_json(struct jw *jw, const json_t *value);         /* NULL becomes null */

/* A string in parts, none of which ends in the middle of a character. */
void jw_part_open(struct jw *jw);
void jw_part(struct jw *jw, const char *text, size_t len);
void jw_part_close(struct jw *jw);

/* A key and its value. */
void jw_key_str(struct jw *jw, const char *key, const char *text);
void jw_key_int(struct jw *jw, const char *key, int64_t value);
void jw_key_bool(struct jw *jw, const char *key, bool value);
