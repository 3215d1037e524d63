#include "fs/rg_json.h"

#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/own.h"

/* A reader of JSON that keeps what is asked for and passes over the rest: there may be a million of
 * these lines, and building objects of each costs more than finding the matches did. */

enum { DEPTH_MAX = 32, KEY_MAX = 32, PATH_BYTES_MAX = 65536, NUMBER_MAX = 30 };

struct rg_json_reader {
	const char *at, *end;
	int depth;
	bool failed;
};

static char peek(struct rg_json_reader *r)
{
	while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
		r->at++;
	return r->at < r->end && !r->failed ? *r->at : 0;
}

static bool take(struct rg_json_reader *r, char c)
{
	if (peek(r) != c)
		return false;
	r->at++;
	return true;
}

static void want(struct rg_json_reader *r, char c)
{
	r->failed = !take(r, c) || r->failed;
}

static int hex4(const struct rg_json_reader *r, const char *at)
{
	int value = 0;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef0123456789ABCDEF", *found;
		if (at + i >= r->end || !at[i] || !(found = strchr(digits, at[i])))
			return -1;
		value = value << 4 | (int)((found - digits) & 15);
	}
	return value;
}

static void put_code(struct buf *to, uint32_t code)
{
	char text[4];
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = len; i-- > 1; code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3f));
	text[0] = (char)(leads[len] | code);
	buf_add(to, text, len);
}

/* \uXXXX, or two of them: at is behind the backslash. */
static void take_unicode(struct rg_json_reader *r, struct buf *to)
{
	int code = hex4(r, r->at + 1), low = -1;
	r->failed = r->failed || code < 0;
	if (r->failed)
		return;
	r->at += 5;
	if (code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' &&
	    r->at[1] == 'u')
		low = hex4(r, r->at + 2);
	if (low >= 0xdc00 && low < 0xe000) {
		r->at += 6;
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	} else if (code >= 0xd800 && code < 0xe000) {
		code = 0xfffd;
	}
	if (to)
		put_code(to, (uint32_t)code);
}

static void take_escape(struct rg_json_reader *r, struct buf *to)
{
	static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";
	const char *found = r->at < r->end && *r->at ? strchr(from, *r->at) : NULL;
	if (found) {
		if (to)
			buf_add(to, &as[found - from], 1);
		r->at++;
	} else if (r->at < r->end && *r->at == 'u') {
		take_unicode(r, to);
	} else {
		r->failed = true;
	}
}

/* A string, into a buffer or, with NULL, nowhere. */
static void take_string(struct rg_json_reader *r, struct buf *to)
{
	if (to && to->data)
		to->len = 0;
	want(r, '"');
	while (!r->failed) {
		const char *run = r->at;
		while (r->at < r->end && *r->at != '"' && *r->at != '\\')
			r->at++;
		if (to && r->at > run)
			buf_add(to, run, (size_t)(r->at - run));
		if (r->at == r->end) {
			r->failed = true;
		} else if (*r->at++ == '"') {
			if (to)
				buf_add(to, "", 0);
			return;
		} else {
			take_escape(r, to);
		}
	}
}

static int64_t take_int(struct rg_json_reader *r)
{
	char text[NUMBER_MAX];
	size_t len = 0;
	(void)peek(r);
	while (r->at < r->end && strchr("+-.eE0123456789", *r->at) && *r->at) {
		if (len < sizeof text - 1)
			text[len++] = *r->at;
		r->at++;
	}
	text[len] = 0;
	r->failed = r->failed || !len;
	return strtoll(text, NULL, 10);
}

static void skip(struct rg_json_reader *r);

/* The next key of an object: false at its end. */
static bool next_key(struct rg_json_reader *r, char key[KEY_MAX], bool *first)
{
	if (take(r, '}') || r->failed)
		return false;
	if (!*first)
		want(r, ',');
	*first = false;
	(void)peek(r);
	const char *begin = r->at;
	take_string(r, NULL);
	/* None that we know has an escape in it, or is long. */
	size_t len = r->failed ? 0 : (size_t)(r->at - begin) - 2;
	len = len < KEY_MAX ? len : KEY_MAX - 1;
	memcpy(key, begin + 1, len);
	key[len] = 0;
	want(r, ':');
	return !r->failed;
}

static void skip_all(struct rg_json_reader *r, char close)
{
	char key[KEY_MAX];
	r->at++;
	r->failed = r->failed || ++r->depth > DEPTH_MAX;
	if (close == '}') {
		for (bool first = true; next_key(r, key, &first);)
			skip(r);
	} else {
		for (bool first = true; !r->failed && !take(r, ']'); first = false) {
			if (!first)
				want(r, ',');
			skip(r);
		}
	}
	r->depth--;
}

static void skip(struct rg_json_reader *r)
{
	char c = peek(r);
	if (c == '"')
		take_string(r, NULL);
	else if (c == '{' || c == '[')
		skip_all(r, c == '{' ? '}' : ']');
	else if (c && strchr("-0123456789", c))
		(void)take_int(r);
	else if (r->end - r->at >= 4 && (!memcmp(r->at, "true", 4) || !memcmp(r->at, "null", 4)))
		r->at += 4;
	else if (r->end - r->at >= 5 && !memcmp(r->at, "false", 5))
		r->at += 5;
	else
		r->failed = true;
}

/* {"text": "…"}, or {"bytes": "…"} in base64 for what is not UTF-8; or null. */
static void take_text(struct rg_json_reader *r, struct buf *to)
{
	char key[KEY_MAX];
	if (peek(r) != '{') {
		skip(r);
		return;
	}
	r->at++;
	for (bool first = true; next_key(r, key, &first);) {
		if (!strcmp(key, "text")) {
			take_string(r, to);
		} else if (!strcmp(key, "bytes")) {
			auto_buf struct buf coded = BUF(to->cap / 3 * 4 + 8);
			take_string(r, &coded);
			to->len = 0;
			r->failed = r->failed ||
				    base64_decode(to, coded.data ? coded.data : "", coded.len) < 0;
		} else {
			skip(r);
		}
	}
}

/* Calls fn with each key of an object; what is no object is passed over. */
static void each_key(struct rg_json_reader *r, struct rg_message *to,
		     void (*fn)(struct rg_json_reader *r, const char *key, struct rg_message *to))
{
	char key[KEY_MAX];
	if (peek(r) != '{') {
		skip(r);
		return;
	}
	r->at++;
	for (bool first = true; next_key(r, key, &first);)
		fn(r, key, to);
}

static void take_submatch(struct rg_json_reader *r, const char *key, struct rg_message *to)
{
	if (!strcmp(key, "start") && to->start < 0 && peek(r) != 'n')
		to->start = take_int(r);
	else
		skip(r);
}

static void take_submatches(struct rg_json_reader *r, struct rg_message *to)
{
	if (peek(r) != '[') {
		skip(r);
		return;
	}
	r->at++;
	for (bool first = true; !r->failed && !take(r, ']'); first = false) {
		if (!first)
			want(r, ',');
		each_key(r, to, take_submatch);
	}
}

static void take_data(struct rg_json_reader *r, const char *key, struct rg_message *to)
{
	if (!strcmp(key, "path"))
		take_text(r, &to->path);
	else if (!strcmp(key, "lines"))
		take_text(r, &to->text);
	else if (!strcmp(key, "line_number") && peek(r) != 'n')
		to->line = take_int(r);
	else if (!strcmp(key, "submatches"))
		take_submatches(r, to);
	else if (!strcmp(key, "binary_offset") && peek(r) != 'n')
		to->binary = take_int(r) >= 0;
	else
		skip(r);
}

static void take_message(struct rg_json_reader *r, const char *key, struct rg_message *to)
{
	static const char *const names[] = { "", "begin", "match", "context", "end", "summary" };
	if (!strcmp(key, "data")) {
		each_key(r, to, take_data);
	} else if (!strcmp(key, "type")) {
		(void)peek(r);
		const char *begin = r->at;
		take_string(r, NULL);
		for (int i = RG_BEGIN; !r->failed && i <= RG_SUMMARY; i++)
			if ((size_t)(r->at - begin) == strlen(names[i]) + 2 &&
			    !memcmp(begin + 1, names[i], strlen(names[i])))
				to->type = (enum rg_type)i;
	} else {
		skip(r);
	}
}

void rg_message_init(struct rg_message *message, size_t text_max)
{
	*message = (struct rg_message){ .path = BUF(PATH_BYTES_MAX), .text = BUF(text_max) };
}

void rg_message_done(struct rg_message *message)
{
	buf_done(&message->path);
	buf_done(&message->text);
}

int rg_json_parse(const char *line, size_t len, struct rg_message *to, struct err *err)
{
	struct rg_json_reader r = { .at = line, .end = line + len };
	to->type = RG_OTHER;
	to->line = 0;
	to->start = -1;
	to->binary = to->path.full = to->text.full = false;
	to->path.len = to->text.len = 0;
	buf_add(&to->path, "", 0);
	buf_add(&to->text, "", 0);
	bool object = peek(&r) == '{';
	each_key(&r, to, take_message);
	if (!object || r.failed || peek(&r))
		return err_set(err, ERR_BAD_REQUEST, "not a line of rg's");
	return 0;
}
