#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/own.h"
#include "tap.h"

/* Parses a copy of exactly len bytes, so that a sanitizer sees every step beyond them. */
static json_t *parse_bytes(const char *text, size_t len, size_t *ret_at, struct err *err)
{
	char *copy = xmalloc(len ? len : 1);
	memcpy(copy, text, len);
	json_t *value = json_parse_at(copy, len, ret_at, err);
	free(copy);
	return value;
}

static json_t *parse(const char *text)
{
	return parse_bytes(text, strlen(text), NULL, NULL);
}

static bool accepts(const char *text)
{
	json_t *value = parse(text);
	json_decref(value);
	return value != NULL;
}

/* Whether a text is a string of these bytes. */
static bool is_string(const char *text, const char *want, size_t len)
{
	json_t *value = parse(text);
	bool same = json_is_string(value) && json_string_length(value) == len &&
		    !memcmp(json_string_value(value), want, len);
	json_decref(value);
	return same;
}
#define IS_STRING(text, want) CHECK(is_string(text, want, sizeof want - 1))

static bool is_integer(const char *text, json_int_t want)
{
	json_t *value = parse(text);
	bool same = json_is_integer(value) && json_integer_value(value) == want;
	json_decref(value);
	return same;
}

static bool is_real(const char *text, double want)
{
	json_t *value = parse(text);
	bool same = json_is_real(value) &&
		    fabs(json_real_value(value) - want) <= fabs(want) * 1e-15;
	json_decref(value);
	return same;
}

/* ---- the pre-scan ---- */

static json_t *parse_nested(const char *open, const char *middle, const char *close, int depth,
			    struct err *err)
{
	auto_buf struct buf text = BUF(1 << 20);
	for (int i = 0; i < depth; i++)
		buf_str(&text, open);
	buf_str(&text, middle);
	for (int i = 0; i < depth; i++)
		buf_str(&text, close);
	return parse_bytes(text.data, text.len, NULL, err);
}

static void depth(void)
{
	static const struct {
		const char *open, *middle, *close;
	} rows[] = {
		{ "[", "", "]" },
		{ "[", "1", "]" },
		{ "{\"a\":", "1", "}" },
		{ " [ 1 ,{\"a\":", "{}", "} ] " },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		int each = i == 3 ? 2 : 1, most = i == 3 ? 31 : 64;
		struct err err = { 0 };
		json_t *value =
			parse_nested(rows[i].open, rows[i].middle, rows[i].close, most, &err);
		CHECK(value != NULL);
		json_decref(value);
		value = parse_nested(rows[i].open, rows[i].middle, rows[i].close, most + each,
				     &err);
		CHECK(!value && err.code == ERR_INVALID);
		CHECK_STR(err.msg, "nested too deeply");
		json_decref(value);
	}
	CHECK(!parse_nested("[", "", "]", 100000, NULL));
	CHECK(!parse_nested("[", "", "", 100000, NULL));
	/* Brackets in strings are no depth, and many lists beside each other are not deep. */
	json_t *value = parse_nested(
		"", "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]", "",
		1, NULL);
	CHECK(value != NULL);
	json_decref(value);
	value = parse_nested("[[],", "[]", "]", 63, NULL);
	CHECK(value != NULL);
	json_decref(value);
}

static json_t *parse_many(const char *first, const char *item, const char *last, size_t count,
			  struct err *err)
{
	size_t len = strlen(item);
	auto_buf struct buf text = BUF(64 << 20);
	buf_str(&text, first);
	for (size_t i = 0; i < count; i++) {
		buf_add(&text, ",", i > 0);
		buf_add(&text, item, len);
	}
	buf_str(&text, last);
	return json_parse(text.data, text.len, err);
}

/* A container counts as a value, a key does not. */
static void values(void)
{
	static const struct {
		const char *first, *item, *last;
		size_t most; /* items that make a million values */
	} rows[] = {
		{ "[", "1", "]", 999999 },
		{ "{", "\"a,b\": 1", "}", 999999 },
		{ "[", "[ ]", "]", 999999 },
		{ "[0,", "{\"a\" : 2}", "]", 499999 },
		{ "[\t\n", " \"[,{,\\\",\" ", "]", 999999 },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = { 0 };
		json_t *value =
			parse_many(rows[i].first, rows[i].item, rows[i].last, rows[i].most, &err);
		CHECK(value != NULL);
		json_decref(value);
		value = parse_many(rows[i].first, rows[i].item, rows[i].last, rows[i].most + 1,
				   &err);
		CHECK(!value && err.code == ERR_INVALID);
		CHECK_STR(err.msg, "too many values");
	}
}

static void surrogates(void)
{
	IS_STRING("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80");
	IS_STRING("\"\\uD83D\\uDE00\"", "\xf0\x9f\x98\x80");
	IS_STRING("\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf");
	/* Alone, at the beginning, in the middle, at the end. */
	IS_STRING("\"\\ud83d\"", "\xef\xbf\xbd");
	IS_STRING("\"\\ude00\"", "\xef\xbf\xbd");
	IS_STRING("\"\\ud800 a\"", "\xef\xbf\xbd a");
	IS_STRING("\"a\\udc00b\"", "a\xef\xbf\xbd"
				   "b");
	IS_STRING("\"a\\uDFFF\"", "a\xef\xbf\xbd");
	/* Two high ones, two low ones, the wrong way round, a pair behind a lone one. */
	IS_STRING("\"\\ud800\\ud800\"", "\xef\xbf\xbd\xef\xbf\xbd");
	IS_STRING("\"\\udc00\\udc00\"", "\xef\xbf\xbd\xef\xbf\xbd");
	IS_STRING("\"\\ude00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd");
	IS_STRING("\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80");
	IS_STRING("\"\\ud83d\\ude00\\ude00\"", "\xf0\x9f\x98\x80\xef\xbf\xbd");
	/* Before other escapes. */
	IS_STRING("\"\\ud83d\\n\"", "\xef\xbf\xbd\n");
	IS_STRING("\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
					"A");
	IS_STRING("\"\\ud83d\\\\ude00\"", "\xef\xbf\xbd\\ude00");
	IS_STRING("\"\\\\ud83d\"", "\\ud83d");
	CHECK(!accepts("\"\\ud83d\\u00\""));
	CHECK(!accepts("\"\\ud83d\\ude0"));
	CHECK(!accepts("\"\\ud83\""));
	CHECK(!accepts("\"\\ud8zz\""));
	json_t *value = parse("{\"a\\ud800\": {\"\\udc00\": [\"\\ud800\"]}}");
	const json_t *inner = json_object_get(value, "a\xef\xbf\xbd");
	inner = json_object_get(inner, "\xef\xbf\xbd");
	CHECK_STR(json_string_value(json_array_get(inner, 0)), "\xef\xbf\xbd");
	json_decref(value);
}

static void nul(void)
{
	IS_STRING("\"\\u0000\"", "\0");
	IS_STRING("\"a\\u0000b\"", "a\0b");
	json_t *value =
		parse("{\"a\\u0000b\": \"c\\u0000\", \"d\" : [{\"\\u0000\":1}, \"\\u0000\"]}");
	const json_t *text = json_object_get(value, "a\xef\xbf\xbd"
						    "b");
	CHECK(json_string_length(text) == 2 && !memcmp(json_string_value(text), "c\0", 2));
	const json_t *list = json_object_get(value, "d");
	CHECK(json_object_get(json_array_get(list, 0), "\xef\xbf\xbd") != NULL);
	CHECK(json_string_length(json_array_get(list, 1)) == 1);
	json_decref(value);
	/* A string after a list or an object in an object is a key again. */
	value = parse("{\"a\": [\"x\", \"y\"], \"\\u0000\": {}, \"b\\u0000\": 1}");
	CHECK(json_object_size(value) == 3);
	json_decref(value);
	CHECK(!parse_bytes("\"\0\"", 3, NULL, NULL));
	CHECK(!parse_bytes("{\"\0\":1}", 7, NULL, NULL));
	CHECK(!parse_bytes("1\0", 2, NULL, NULL));
	CHECK(!parse_bytes("[1,\0]", 5, NULL, NULL));
	CHECK(!parse_bytes("[\0]", 3, NULL, NULL));
	CHECK(!parse_bytes("1\0002", 3, NULL, NULL));
}

static void numbers(void)
{
	CHECK(is_integer("0", 0) && is_integer("-0", 0) && is_integer("-7", -7));
	CHECK(is_integer("9223372036854775807", INT64_MAX));
	CHECK(is_integer("-9223372036854775808", INT64_MIN));
	CHECK(is_integer("999999999999999999", 999999999999999999));
	CHECK(is_real("9223372036854775808", 0x1p63));
	CHECK(is_real("-9223372036854775809", -0x1p63));
	CHECK(is_real("9999999999999999999", 1e19));
	CHECK(is_real("-9999999999999999999", -1e19));
	CHECK(is_real("10000000000000000000", 1e19));
	CHECK(is_real("18446744073709551616", 0x1p64));
	CHECK(is_real("123456789012345678901234567890", 1.2345678901234568e29));
	CHECK(is_real("-123456789012345678901234567890", -1.2345678901234568e29));
	CHECK(is_real("9223372036854775808.0", 0x1p63) && is_real("9223372036854775808e0", 0x1p63));
	CHECK(is_real("1e3", 1000) && is_real("1E+3", 1000) && is_real("-1.5e-3", -0.0015));
	CHECK(is_real("1.7976931348623157e308", 1.7976931348623157e308));
	json_t *value = parse("[9223372036854775808,-9223372036854775809 , 9223372036854775807]");
	CHECK(json_is_real(json_array_get(value, 0)) && json_is_real(json_array_get(value, 1)));
	CHECK(json_is_integer(json_array_get(value, 2)));
	json_decref(value);
	static const char *const wrong[] = {
		"01",
		"-",
		"-01",
		"+1",
		"1.",
		".5",
		"1e",
		"1e+",
		"0x10",
		"1-1",
		"--1",
		"1e400",
		"NaN",
		"-1.",
		"1.e",
		"1.2.3",
		"1 2",
		"-a",
		"Infinity",
		"00000000000000000000",
		"00000000000000000001",
	};
	for (size_t i = 0; i < COUNT(wrong); i++)
		if (!CHECK(!accepts(wrong[i])))
			printf("# %s\n", wrong[i]);
}

static void escapes(void)
{
	IS_STRING("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
	IS_STRING("\"\\u0041\\u00e9\\u20AC\\u20ac\"", "A\xc3\xa9\xe2\x82\xac\xe2\x82\xac");
	IS_STRING("\"\\u001f\\u007f\"", "\x1f\x7f");
	IS_STRING("\"\xe2\x82\xac\xf0\x9f\x98\x80\"", "\xe2\x82\xac\xf0\x9f\x98\x80");
	IS_STRING("\"\"", "");
	static const char *const wrong[] = {
		"\"\\a\"",  "\"\\x41\"",    "\"\\u12\"",        "\"\\u123g\"",  "\"\t\"",
		"\"\n\"",   "\"",           "\"\\\"",           "\"\\",         "\"\\u",
		"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "'a'",
		"\"a\"b",
	};
	for (size_t i = 0; i < COUNT(wrong); i++)
		if (!CHECK(!accepts(wrong[i])))
			printf("# %s\n", wrong[i]);
}

static const char sample[] =
	"{\"text\": \"a\\u00e9\\ud83d\\ude00\\ud800\\n\xe2\x82\xac\", \"k\\u0000\": [1, -2.5e+3, true, "
	"false, null, 12345678901234567890], \"o\": {\"x\": {}, \"y\": [], \"z\": [[0]]}} ";

/* Every beginning and every end of a document, each in memory of its own size. */
static void truncated(void)
{
	size_t len = sizeof sample - 1, accepted = 0;
	for (size_t n = 0; n < len; n++) {
		size_t at = 0;
		json_t *value = parse_bytes(sample, n, &at, NULL);
		accepted += value && n < len - 1;
		accepted += !value && at > n + 1;
		json_decref(value);
		json_decref(parse_bytes(sample + n, len - n, NULL, NULL));
	}
	CHECK(accepted == 0);
	json_t *value = parse(sample);
	CHECK(json_object_size(value) == 3);
	json_decref(value);
}

static void places(void)
{
	struct err err;
	size_t at = 99;
	CHECK(!parse_bytes("{\"a\": nope}", 11, &at, &err) && at >= 6 && at <= 11);
	CHECK(err.code == ERR_INVALID && *err.msg);
	CHECK(!parse_bytes("", 0, &at, &err) && at == 0);
	CHECK(!parse_bytes("[1,2", 4, &at, &err) && at == 4);
	CHECK(!parse_bytes("[1}", 3, &at, &err) && at >= 2);
	static const char *const wrong[] = { "]",       "}",     "[}",   "{]",
					     "{\"a\"}", "{1:2}", "[1,]", "{\"a\":1,}",
					     ",",       ":",     "[,1]", "tru",
					     "nul",     "{}{}",  "[] 1", "{a:1}" };
	for (size_t i = 0; i < COUNT(wrong); i++)
		if (!CHECK(!accepts(wrong[i])))
			printf("# %s\n", wrong[i]);
	json_t *value = parse("{\"a\":1,\"a\":2}");
	CHECK(json_integer_value(json_object_get(value, "a")) == 2);
	json_decref(value);
}

/* ---- the writer ---- */

static bool writes_text(const char *text, size_t len, const char *want)
{
	struct jw jw;
	jw_init(&jw, 10000);
	jw_text(&jw, text, len);
	bool same = !jw_failed(&jw) && !strcmp(jw.out.data, want);
	if (!same)
		printf("# got %s, want %s\n", jw.out.data, want);
	jw_done(&jw);
	return same;
}
#define WRITES_TEXT(text, want) CHECK(writes_text(text, sizeof text - 1, want))

static void text_out(void)
{
	WRITES_TEXT("", "\"\"");
	WRITES_TEXT("plain", "\"plain\"");
	WRITES_TEXT("\"\\/\b\f\n\r\t", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
	WRITES_TEXT("\0\x01\x1f\x7f ", "\"\\u0000\\u0001\\u001f\x7f \"");
	WRITES_TEXT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* As WHATWG has it: one U+FFFD for the longest beginning of a character, else one a byte. */
	WRITES_TEXT("\xff", "\"\xef\xbf\xbd\"");
	WRITES_TEXT("a\x80\x80z", "\"a\xef\xbf\xbd\xef\xbf\xbdz\"");
	WRITES_TEXT("\xe2\x82", "\"\xef\xbf\xbd\"");
	WRITES_TEXT("\xe2\x82\n", "\"\xef\xbf\xbd\\n\"");
	WRITES_TEXT("\xf0\x9f\x98\"", "\"\xef\xbf\xbd\\\"\"");
	WRITES_TEXT("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	WRITES_TEXT("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	WRITES_TEXT("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	WRITES_TEXT("\xe2\xe2\x82\xac", "\"\xef\xbf\xbd\xe2\x82\xac\"");
	struct jw jw;
	jw_init(&jw, 100);
	jw_open(&jw, '[');
	jw_str(&jw, NULL);
	jw_str(&jw, "x");
	jw_close(&jw, ']');
	CHECK_STR(jw.out.data, "[null,\"x\"]");
	jw_done(&jw);
}

static const char *number_text(double value)
{
	static char text[64];
	struct jw jw;
	jw_init(&jw, sizeof text - 1);
	jw_num(&jw, value);
	snprintf(text, sizeof text, "%s", jw.out.data);
	jw_done(&jw);
	return text;
}

/* Long texts are looked at several bytes at a time. */
static void every_byte_out(void)
{
	size_t wrong = 0;
	for (int c = 1; c < 0x80; c++)
		for (size_t at = 0; at < 24; at++) {
			char text[152];
			struct jw jw;
			memset(text, at % 2 ? 'x' : 0x7f, sizeof text - 1);
			text[sizeof text - 1] = 0;
			text[at] = (char)c;
			jw_init(&jw, 1000);
			jw_str(&jw, text);
			json_t *value = parse(jw.out.data);
			const char *back = json_string_value(value);
			wrong += !back || strcmp(back, text) != 0;
			json_decref(value);
			jw_done(&jw);
		}
	CHECK(wrong == 0);
}

static void numbers_out(void)
{
	static const double some[] = { 0.1,
				       1.0 / 3,
				       2.5,
				       -1e-7,
				       1e21,
				       1.7976931348623157e308,
				       5e-324,
				       2.2250738585072014e-308,
				       123456789012345680.0,
				       0x1p53 + 2,
				       1e15,
				       -9007199254740993.0,
				       3.141592653589793,
				       100,
				       1e300 };
	for (size_t i = 0; i < COUNT(some); i++)
		CHECK(strtod(number_text(some[i]), NULL) == some[i]);
	uint64_t seed = 88172645463325252u;
	size_t differ = 0;
	for (int i = 0; i < 20000; i++) {
		double value;
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		memcpy(&value, &seed, sizeof value);
		differ += isfinite(value) && strtod(number_text(value), NULL) != value;
	}
	CHECK(differ == 0);
	CHECK_STR(number_text(0.1), "0.1");
	CHECK_STR(number_text(7), "7");
	CHECK_STR(number_text(-2.5), "-2.5");
	CHECK_STR(number_text(NAN), "null");
	CHECK_STR(number_text(INFINITY), "null");
	CHECK_STR(number_text(-INFINITY), "null");
	struct jw jw;
	jw_init(&jw, 1000);
	jw_open(&jw, '[');
	jw_int(&jw, INT64_MIN);
	jw_int(&jw, INT64_MAX);
	jw_int(&jw, 0);
	jw_bool(&jw, true);
	jw_bool(&jw, false);
	jw_null(&jw);
	jw_close(&jw, ']');
	CHECK_STR(jw.out.data, "[-9223372036854775808,9223372036854775807,0,true,false,null]");
	jw_done(&jw);
}

static void structure_out(void)
{
	struct jw jw;
	jw_init(&jw, 1000);
	jw_open(&jw, '{');
	jw_key(&jw, "a");
	jw_open(&jw, '[');
	jw_open(&jw, '{');
	jw_close(&jw, '}');
	jw_open(&jw, '[');
	jw_close(&jw, ']');
	jw_raw(&jw, "{\"raw\":1}", 9);
	jw_close(&jw, ']');
	jw_key_str(&jw, "b\n", "c");
	jw_key_int(&jw, "d", -1);
	jw_key_bool(&jw, "e", true);
	jw_key_str(&jw, "f", NULL);
	jw_key(&jw, "g");
	jw_json(&jw, NULL);
	jw_close(&jw, '}');
	CHECK_STR(jw.out.data,
		  "{\"a\":[{},[],{\"raw\":1}],\"b\\n\":\"c\",\"d\":-1,\"e\":true,\"f\":null,"
		  "\"g\":null}");
	jw_done(&jw);
	json_t *value = parse(sample);
	jw_init(&jw, 1000);
	jw_json(&jw, value);
	json_t *again = parse_bytes(jw.out.data, jw.out.len, NULL, NULL);
	CHECK(again && json_equal(value, again));
	json_decref(again);
	json_decref(value);
	jw_done(&jw);
	value = parse("[1.0,-0.0,1e2,12345678901234567890,0.5,1]");
	jw_init(&jw, 1000);
	jw_json(&jw, value);
	CHECK_STR(jw.out.data, "[1.0,-0.0,100.0,1.2345678901234567e+19,0.5,1]");
	json_decref(value);
	jw_done(&jw);
}

/* ---- flushing ---- */

struct drain {
	struct buf got;
	size_t calls, largest;
	int fail_after; /* calls; -1: never */
};

static int drain(void *arg, const char *data, size_t len)
{
	struct drain *to = arg;
	if (to->fail_after >= 0 && to->calls >= (size_t)to->fail_after)
		return -1;
	to->calls++;
	to->largest = len > to->largest ? len : to->largest;
	return buf_add(&to->got, data, len);
}

static void write_long(struct jw *jw, const char *text, size_t len)
{
	jw_open(jw, '{');
	jw_key(jw, "text");
	jw_text(jw, text, len);
	jw_key(jw, "raw");
	jw_raw(jw, text, len); /* no JSON, but nobody looks */
	jw_key(jw, text);
	jw_null(jw);
	jw_close(jw, '}');
}

static void write_many(struct jw *jw, const char *text, size_t len)
{
	jw_open(jw, '[');
	for (int64_t i = 0; i < 60000; i++) {
		jw_open(jw, '{');
		jw_key_int(jw, "n", i);
		jw_key(jw, "t");
		jw_text(jw, text, len);
		jw_close(jw, '}');
	}
	jw_close(jw, ']');
}

/* What is written in pieces through a small buffer is what is written at once. */
static void compare_flushed(void (*write)(struct jw *, const char *, size_t), const char *text,
			    size_t len)
{
	struct jw whole, pieces;
	struct drain to = { .got = BUF(64 << 20), .fail_after = -1 };
	jw_init(&whole, 64 << 20);
	jw_init(&pieces, JW_FLUSH * 2);
	pieces.flush = drain;
	pieces.arg = &to;
	write(&whole, text, len);
	write(&pieces, text, len);
	CHECK(!jw_failed(&whole) && !jw_failed(&pieces));
	buf_add(&to.got, pieces.out.data, pieces.out.len);
	CHECK(to.calls > 1 && to.largest <= JW_FLUSH * 2);
	CHECK(to.got.len == whole.out.len && !memcmp(to.got.data, whole.out.data, to.got.len));
	jw_done(&whole);
	jw_done(&pieces);
	buf_done(&to.got);
}

static void flushing(void)
{
	enum { LONG = 1 << 20 };
	char *text = xcalloc(1, LONG + 1);
	memset(text, 'x', LONG);
	compare_flushed(write_long, text, LONG);
	for (size_t i = 0; i + 3 < LONG; i += 3) /* a cut must not fall into a character */
		memcpy(text + i, "\xe2\x82\xac", 3);
	compare_flushed(write_long, text, LONG);
	memset(text, '\n', LONG);
	compare_flushed(write_long, text, LONG);
	memset(text, 0xff, LONG);
	compare_flushed(write_long, text, LONG);
	compare_flushed(write_many, "small", 5);
	compare_flushed(write_many, "\"\\\n", 3);
	struct drain to = { .got = BUF(64 << 20), .fail_after = 2 };
	struct jw jw;
	jw_init(&jw, JW_FLUSH * 2);
	jw.flush = drain;
	jw.arg = &to;
	write_many(&jw, "small", 5);
	CHECK(jw_failed(&jw) && to.calls == 2); /* not called again once it failed */
	jw_done(&jw);
	buf_done(&to.got);
	free(text);
}

static void cap(void)
{
	struct jw jw;
	jw_init(&jw, 10);
	jw_str(&jw, "12345678");
	CHECK(!jw_failed(&jw));
	CHECK_STR(jw.out.data, "\"12345678\"");
	jw_null(&jw);
	CHECK(jw_failed(&jw) && jw.out.len <= 10);
	jw_done(&jw);
	jw_init(&jw, 10);
	jw_str(&jw, "123456789");
	CHECK(jw_failed(&jw));
	jw_done(&jw);
}

int main(void)
{
	depth();
	values();
	surrogates();
	nul();
	numbers();
	escapes();
	truncated();
	places();
	text_out();
	every_byte_out();
	numbers_out();
	structure_out();
	flushing();
	cap();
	return tap_done();
}
