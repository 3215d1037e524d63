#include "base/json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

/* ---- the pre-scan ---- */

struct json_scan {
	char *at, *end;
	uint64_t objects; /* bit n: the container at depth n is an object */
	int depth;
	size_t values;
	bool key; /* the next string is a key */
};

static int hex4(const char *at, const char *end)
{
	int value = 0;
	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = at[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;
		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

/* Repairs the \u escape at scan->at and steps over it. */
static void scan_escape(struct json_scan *scan, bool key)
{
	char *at = scan->at;
	int code = hex4(at + 2, scan->end);
	scan->at += 2;
	if (code < 0)
		return;
	scan->at += 4;
	if (code >= 0xd800 && code < 0xdc00 && scan->end - scan->at >= 6 && scan->at[0] == '\\' &&
	    scan->at[1] == 'u') {
		int low = hex4(scan->at + 2, scan->end);
		if (low >= 0xdc00 && low < 0xe000) {
			scan->at += 6;
			return;
		}
	}
	if ((code >= 0xd800 && code < 0xe000) || (code == 0 && key))
		memcpy(at + 2, "fffd", 4);
}

static void scan_string(struct json_scan *scan)
{
	bool key = scan->key;
	scan->key = false;
	scan->at++;
	while (scan->at < scan->end && *scan->at != '"') {
		if (*scan->at != '\\')
			scan->at++;
		else if (scan->end - scan->at > 1 && scan->at[1] == 'u')
			scan_escape(scan, key);
		else
			scan->at += scan->end - scan->at > 1 ? 2 : 1;
	}
	if (scan->at < scan->end)
		scan->at++;
}

/* An integer that 64 bits cannot hold becomes a real of the same length: its last two digits give
 * way to "e2", far below what a double can tell. */
static void scan_number(struct json_scan *scan)
{
	bool negative = *scan->at == '-';
	char *digits = scan->at + negative;
	char *at = digits;
	while (at < scan->end && *at >= '0' && *at <= '9')
		at++;
	size_t count = (size_t)(at - digits);
	bool integer = at == scan->end || (*at != '.' && *at != 'e' && *at != 'E');
	const char *limit = negative ? "9223372036854775808" : "9223372036854775807";
	if (integer && (count > 19 || (count == 19 && memcmp(digits, limit, 19) > 0)))
		memcpy(at - 2, "e2", 2);
	while (at < scan->end && strchr("0123456789.eE+-", *at) && *at)
		at++;
	scan->at = at > scan->at ? at : scan->at + 1;
}

static const char *scan_open(struct json_scan *scan)
{
	bool object = *scan->at++ == '{';
	if (scan->depth == JSON_DEPTH_MAX)
		return "nested too deeply";
	scan->objects = object ? scan->objects | 1ull << scan->depth
			       : scan->objects & ~(1ull << scan->depth);
	scan->depth++;
	scan->key = object;
	while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) && *scan->at)
		scan->at++;
	if (scan->at < scan->end && *scan->at != (object ? '}' : ']'))
		scan->values++;
	return NULL;
}

static const char *scan_step(struct json_scan *scan)
{
	switch (*scan->at) {
	case '"':
		scan_string(scan);
		return NULL;
	case '{':
	case '[':
		return scan_open(scan);
	case '}':
	case ']':
		if (scan->depth)
			scan->depth--;
		scan->at++;
		return NULL;
	case ',':
		scan->values++;
		scan->key = scan->depth && scan->objects >> (scan->depth - 1) & 1;
		scan->at++;
		return NULL;
	case '-':
	case '0' ... '9':
		scan_number(scan);
		return NULL;
	case 0: /* jansson overlooks one behind a number */
		return "NUL byte";
	default:
		scan->at++;
		return NULL;
	}
}

json_t *json_parse_at(char *text, size_t len, size_t *ret_at, struct err *err)
{
	struct json_scan scan = { .at = text, .end = text + len, .values = 1 };
	while (scan.at < scan.end) {
		const char *wrong = scan_step(&scan);
		if (!wrong && scan.values > JSON_VALUES_MAX)
			wrong = "too many values";
		if (wrong) {
			if (ret_at)
				*ret_at = (size_t)(scan.at - text);
			err_set(err, ERR_INVALID, "%s", wrong);
			return NULL;
		}
	}
	json_error_t fault;
	json_t *value = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
	if (!value) {
		if (ret_at)
			*ret_at = fault.position > 0 ? (size_t)fault.position : 0;
		err_set(err, ERR_INVALID, "%s", fault.text);
	}
	return value;
}

/* ---- the writer ---- */

void jw_init(struct jw *jw, size_t cap)
{
	*jw = (struct jw){ .out = BUF(cap) };
}

void jw_done(struct jw *jw)
{
	buf_done(&jw->out);
}

bool jw_failed(const struct jw *jw)
{
	return jw->failed || jw->out.full;
}

static void put_slow(struct jw *jw, const char *data, size_t len)
{
	size_t n;
	do {
		if (jw->flush && jw->out.len >= JW_FLUSH && !jw->failed) {
			jw->failed = jw->flush(jw->arg, jw->out.data, jw->out.len) < 0;
			jw->out.len = 0;
		}
		n = jw->flush && len > JW_FLUSH ? JW_FLUSH : len;
		if (!jw->failed)
			buf_add(&jw->out, data, n);
		data += n;
		len -= n;
	} while (len);
}

/* A piece is a few bytes, mostly, and has room. */
static inline void put(struct jw *jw, const char *data, size_t len)
{
	struct buf *out = &jw->out;
	if (out->full || jw->failed || out->len >= JW_FLUSH || len >= out->room - out->len ||
	    len > out->cap - out->len) {
		put_slow(jw, data, len);
		return;
	}
	memcpy(out->data + out->len, data, len);
	out->len += len;
	out->data[out->len] = 0;
}

static void value_start(struct jw *jw)
{
	if (jw->comma)
		put(jw, ",", 1);
	jw->comma = true;
}

void jw_open(struct jw *jw, char bracket)
{
	value_start(jw);
	put(jw, &bracket, 1);
	jw->comma = false;
}

void jw_close(struct jw *jw, char bracket)
{
	put(jw, &bracket, 1);
	jw->comma = true;
}

static void put_escaped(struct jw *jw, unsigned char c)
{
	static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
	static const char hex[] = "0123456789abcdef";
	const char *at = c ? strchr(letters, c) : NULL;
	if (at)
		put(jw, (char[]){ '\\', names[at - letters] }, 2);
	else
		put(jw, (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
}

/* Whether a byte of the word is to be escaped. */
static bool has_special(uint64_t word)
{
	const uint64_t ones = 0x0101010101010101u, highs = ones << 7;
	uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
	return ((((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) |
		 ((backslash - ones) & ~backslash)) &
		highs) != 0;
}

/* The length of the run at text that needs no escape, UTF-8 or not. */
static size_t plain_run(const char *text, size_t len)
{
	size_t n = 0;
	for (uint64_t word; len - n >= sizeof word; n += sizeof word) {
		memcpy(&word, text + n, sizeof word);
		if (has_special(word))
			break;
	}
	while (n < len && (unsigned char)text[n] >= 0x20 && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

static void put_utf8(struct jw *jw, const char *text, size_t len)
{
	while (len) {
		size_t good = utf8_span(text, len);
		put(jw, text, good);
		text += good;
		len -= good;
		if (len) {
			size_t bad = utf8_bad(text, len);
			put(jw, "\xef\xbf\xbd", 3);
			text += bad;
			len -= bad;
		}
	}
}

void jw_part_open(struct jw *jw)
{
	value_start(jw);
	put(jw, "\"", 1);
}

void jw_part(struct jw *jw, const char *text, size_t len)
{
	while (len) {
		size_t n = plain_run(text, len);
		put_utf8(jw, text, n);
		if (n < len)
			put_escaped(jw, (unsigned char)text[n++]);
		text += n;
		len -= n;
	}
}

void jw_part_close(struct jw *jw)
{
	put(jw, "\"", 1);
}

/* A short string of plain ASCII, which nearly all are, goes out in one piece. */
static bool put_short(struct jw *jw, const char *text, size_t len)
{
	char quoted[128 + 2];
	if (len > sizeof quoted - 2)
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((signed char)text[i] < 0x20 || text[i] == '"' || text[i] == '\\')
			return false;
		quoted[i + 1] = text[i];
	}
	quoted[0] = quoted[len + 1] = '"';
	value_start(jw);
	put(jw, quoted, len + 2);
	return true;
}

void jw_text(struct jw *jw, const char *text, size_t len)
{
	if (put_short(jw, text, len))
		return;
	jw_part_open(jw);
	jw_part(jw, text, len);
	jw_part_close(jw);
}

void jw_str(struct jw *jw, const char *text)
{
	if (text)
		jw_text(jw, text, strlen(text));
	else
		jw_null(jw);
}

void jw_key(struct jw *jw, const char *key)
{
	jw_str(jw, key);
	put(jw, ":", 1);
	jw->comma = false;
}

void jw_raw(struct jw *jw, const char *json, size_t len)
{
	value_start(jw);
	put(jw, json, len);
}

void jw_int(struct jw *jw, int64_t value)
{
	char text[24], *end = text + sizeof text, *at = end;
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*--at = '-';
	jw_raw(jw, at, (size_t)(end - at));
}

/* The shortest text that is this number again. */
static size_t number_text(double value, char *text, size_t room)
{
	int len = 0;
	for (int digits = 15; digits <= 17; digits++) {
		len = snprintf(text, room, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return (size_t)len;
}

void jw_num(struct jw *jw, double value)
{
	char text[32];
	if (isfinite(value))
		jw_raw(jw, text, number_text(value, text, sizeof text));
	else
		jw_null(jw);
}

void jw_bool(struct jw *jw, bool value)
{
	jw_raw(jw, value ? "true" : "false", value ? 4 : 5);
}

void jw_null(struct jw *jw)
{
	jw_raw(jw, "null", 4);
}

/* A real that came as 1.0 is one again for whoever reads it next. */
static void put_real(struct jw *jw, double value)
{
	char text[32];
	size_t len = number_text(value, text, sizeof text - 2);
	if (!strpbrk(text, ".e"))
		len = (size_t)(stpcpy(text + len, ".0") - text);
	jw_raw(jw, text, len);
}

void jw_json(struct jw *jw, const json_t *value)
{
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_OBJECT: {
		const char *key;
		json_t *item;
		jw_open(jw, '{');
		json_object_foreach((json_t *)value, key, item) {
			jw_key(jw, key);
			jw_json(jw, item);
		}
		jw_close(jw, '}');
		break;
	}
	case JSON_ARRAY:
		jw_open(jw, '[');
		for (size_t i = 0; i < json_array_size(value); i++)
			jw_json(jw, json_array_get(value, i));
		jw_close(jw, ']');
		break;
	case JSON_STRING:
		jw_text(jw, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		jw_int(jw, json_integer_value(value));
		break;
	case JSON_REAL:
		put_real(jw, json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		jw_bool(jw, json_is_true(value));
		break;
	default:
		jw_null(jw);
	}
}

void jw_key_str(struct jw *jw, const char *key, const char *text)
{
	jw_key(jw, key);
	jw_str(jw, text);
}

void jw_key_int(struct jw *jw, const char *key, int64_t value)
{
	jw_key(jw, key);
	jw_int(jw, value);
}

void jw_key_bool(struct jw *jw, const char *key, bool value)
{
	jw_key(jw, key);
	jw_bool(jw, value);
}
