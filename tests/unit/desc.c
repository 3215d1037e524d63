#include "base/desc.h"

#include <stdlib.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/nearest.h"
#include "tap.h"

/* ---- a schema with every type ---- */

struct inner {
	const char *name;
	int64_t size;
};
static const struct field inner_fields[] = {
	STR(inner, name, REQUIRED, "A name.", .max_len = 10),
	INT(inner, size, MIN | MAX, "A size.", .def = "7", .min = 1, .max = 100),
};
static const struct schema inner_schema = SCHEMA(inner, "Inner", inner_fields);

struct move {
	const char *kind;
	int64_t x;
};
struct type {
	const char *kind, *text;
};
static const char *const move_tag[] = { "MOVE", NULL }, *const type_tag[] = { "TYPE", NULL };
static const struct field move_fields[] = {
	ENUM(move, kind, REQUIRED, "Which.", .choices = move_tag),
	INT(move, x, REQUIRED, "Where."),
};
static const struct field type_fields[] = {
	ENUM(type, kind, REQUIRED, "Which.", .choices = type_tag),
	STR(type, text, REQUIRED, "What."),
};
static const struct schema move_schema = SCHEMA(move, "Move", move_fields);
static const struct schema type_schema = SCHEMA(type, "Type", type_fields);
static const struct variant variants[] = { { "MOVE", &move_schema }, { "TYPE", &type_schema } };
static const struct schema action_schema = TAGGED("Action", "kind", variants, .help = "Either.");

static const char *const colours[] = { "red", "green", "blue", NULL };

struct all {
	const char *text, *path, *colour, *plain, *greeting;
	struct text bytes, greeting_bytes;
	int64_t integer, any_integer;
	double number, limited;
	bool flag;
	enum tri maybe, surely;
	json_t *free;
	const struct inner *one;
	struct list strings, integers, numbers, flags, inners, colours, frees, texts, maybes,
		actions, usual, sizes, map;
	struct tagged action;
};
static const struct field all_fields[] = {
	STR(all, text, OPTIONAL, "Some text.", .min_len = 2, .max_len = 5, .alias = "string,txt"),
	STR(all, path, ABSPATH, "An absolute path."),
	ENUM(all, colour, OPTIONAL, "A colour.", .choices = colours, .def = "green"),
	STR(all, plain, OPTIONAL, NULL, .min_len = 1, .max_len = 1),
	STR(all, greeting, OPTIONAL, NULL, .def = "hello"),
	TEXT(all, bytes, OPTIONAL, NULL, .max_len = 3),
	TEXT(all, greeting_bytes, OPTIONAL, NULL, .def = "hello"),
	INT(all, integer, MIN | MAX, "An integer.", .def = "5", .min = -10, .max = 10),
	INT(all, any_integer, OPTIONAL, NULL),
	NUM(all, number, OPTIONAL, NULL),
	NUM(all, limited, ABOVE | MAX, NULL, .def = "1.5", .min = 0, .max = 2.5),
	BOOL(all, flag, OPTIONAL, NULL, .def = "true"),
	TRI(all, maybe, OPTIONAL, NULL),
	TRI(all, surely, OPTIONAL, NULL, .def = "true"),
	JSON(all, free, OPTIONAL, NULL),
	OBJ(all, one, OPTIONAL, NULL, .of = &inner_schema),
	LIST(all, strings, OPTIONAL, NULL, .item = T_STR, .min_len = 1, .max_len = 3),
	LIST(all, integers, OPTIONAL, NULL, .item = T_INT),
	LIST(all, numbers, OPTIONAL, NULL, .item = T_NUM, .max_len = 1),
	LIST(all, flags, OPTIONAL, NULL, .item = T_BOOL, .min_len = 2),
	LIST(all, inners, OPTIONAL, NULL, .item = T_OBJ, .of = &inner_schema),
	LIST(all, colours, OPTIONAL, NULL, .item = T_STR, .choices = colours),
	LIST(all, frees, OPTIONAL, NULL, .item = T_JSON),
	LIST(all, texts, OPTIONAL, NULL, .item = T_TEXT),
	LIST(all, maybes, OPTIONAL, NULL, .item = T_TRI),
	LIST(all, actions, OPTIONAL, NULL, .item = T_UNION, .of = &action_schema),
	LIST(all, usual, OPTIONAL, NULL, .item = T_STR, .max_len = 3, .def = "[\"a\",\"b\"]"),
	LIST(all, sizes, OPTIONAL, NULL, .item = T_INT, .def = "[1,2]"),
	MAP(all, map, OPTIONAL, NULL),
	UNION(all, action, OPTIONAL, NULL, .of = &action_schema),
};
static const struct schema all_schema = SCHEMA(all, "All", all_fields);

/* ---- decoding one text ---- */

struct got {
	struct arena arena;
	json_t *from;
	void *to;
	struct problems problems;
};

static struct got *decode_at(const struct schema *schema, unsigned place, const char *json)
{
	struct got *got = xcalloc(1, sizeof *got);
	char *text = xstrdup(json);
	got->from = json_parse(text, strlen(text), NULL);
	free(text);
	got->to = arena_alloc(&got->arena, schema->size);
	if (CHECK(got->from != NULL))
		desc_decode(schema, place, got->from, &(struct loc){ .key = "body" }, &got->arena,
			    got->to, &got->problems);
	return got;
}

static void got_free(struct got *got)
{
	buf_done(&got->problems.json);
	arena_done(&got->arena);
	json_decref(got->from);
	free(got);
}

/* The problems as "type loc message", one a line; "" when there are none. */
static char *problem_text(struct got *got)
{
	struct buf text = BUF(4 << 20);
	buf_str(&text, "");
	buf_str(&got->problems.json, "]");
	json_t *list = got->problems.count
			       ? json_parse(got->problems.json.data, got->problems.json.len, NULL)
			       : json_array();
	CHECK(json_is_array(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i), *loc = json_object_get(one, "loc");
		buf_printf(&text, "%s%s ", i ? "\n" : "",
			   json_string_value(json_object_get(one, "type")));
		for (size_t k = 0; k < json_array_size(loc); k++) {
			const json_t *step = json_array_get(loc, k);
			if (json_is_string(step))
				buf_printf(&text, "%s%s", k ? "." : "", json_string_value(step));
			else
				buf_printf(&text, ".%lld", (long long)json_integer_value(step));
		}
		buf_printf(&text, " %s", json_string_value(json_object_get(one, "msg")));
	}
	json_decref(list);
	return text.data;
}

static void check_problems(const struct schema *schema, const char *json, const char *want)
{
	struct got *got = decode_at(schema, 0, json);
	char *text = problem_text(got);
	if (!CHECK_STR(text, want))
		printf("# for %s\n", json);
	free(text);
	got_free(got);
}

/* Decodes, encodes, and compares one member of the result. */
static void check_value(const char *json, const char *member, const char *want)
{
	struct got *got = decode_at(&all_schema, 0, json);
	char *text = problem_text(got);
	CHECK_STR(text, "");
	free(text);
	struct jw jw;
	jw_init(&jw, 1 << 20);
	desc_encode(&all_schema, got->to, &jw);
	json_t *object = json_parse(jw.out.data, jw.out.len, NULL);
	jw_done(&jw);
	jw_init(&jw, 1 << 20);
	jw_json(&jw, json_object_get(object, member));
	if (!CHECK_STR(jw.out.data, want))
		printf("# for %s\n", json);
	jw_done(&jw);
	json_decref(object);
	got_free(got);
}

/* ---- what is accepted ---- */

static void accepted(void)
{
	static const struct {
		const char *json, *member, *want;
	} rows[] = {
		{ "{\"text\":\"abc\"}", "text", "\"abc\"" },
		{ "{\"text\":\"\\u00e9\\u20ac\\ud83d\\ude00xy\"}", "text",
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80xy\"" },
		{ "{\"string\":\"abc\"}", "text", "\"abc\"" },
		{ "{\"txt\":\"abc\"}", "text", "\"abc\"" },
		{ "{\"txt\":\"abc\",\"text\":\"def\"}", "text", "\"def\"" },
		{ "{\"xt\":\"abc\"}", "text", "null" },
		{ "{\"path\":\"/a b\"}", "path", "\"/a b\"" },
		{ "{\"path\":\"\"}", "path", "\"\"" },
		{ "{\"colour\":\"blue\"}", "colour", "\"blue\"" },
		{ "{\"bytes\":\"a\\u0000b\"}", "bytes", "\"a\\u0000b\"" },
		{ "{\"any_integer\":-9223372036854775807}", "any_integer", "-9223372036854775807" },
		{ "{\"any_integer\":9223372036854775807}", "any_integer", "9223372036854775807" },
		{ "{\"any_integer\":12.0}", "any_integer", "12" },
		{ "{\"any_integer\":-1e3}", "any_integer", "-1000" },
		{ "{\"any_integer\":true}", "any_integer", "1" },
		{ "{\"any_integer\":\"12\"}", "any_integer", "12" },
		{ "{\"any_integer\":\" -1_000 \"}", "any_integer", "-1000" },
		{ "{\"any_integer\":\"+7.000\"}", "any_integer", "7" },
		{ "{\"integer\":-10}", "integer", "-10" },
		{ "{\"integer\":\"10\"}", "integer", "10" },
		{ "{\"number\":2}", "number", "2" },
		{ "{\"number\":2.5}", "number", "2.5" },
		{ "{\"number\":\"1e3\"}", "number", "1000" },
		{ "{\"number\":\"\\t.5 \"}", "number", "0.5" },
		{ "{\"number\":\"1_0.5\"}", "number", "10.5" },
		{ "{\"number\":false}", "number", "0" },
		{ "{\"number\":123456789012345678901234}", "number", "1.2345678901234569e+23" },
		{ "{\"limited\":2.5}", "limited", "2.5" },
		{ "{\"flag\":false}", "flag", "false" },
		{ "{\"flag\":\"OFF\"}", "flag", "false" },
		{ "{\"flag\":0}", "flag", "false" },
		{ "{\"flag\":1.0}", "flag", "true" },
		{ "{\"maybe\":\"y\"}", "maybe", "true" },
		{ "{\"maybe\":\"f\"}", "maybe", "false" },
		{ "{\"free\":{\"a\":[1,2.0,null,\"\\u0000\"]}}", "free",
		  "{\"a\":[1,2.0,null,\"\\u0000\"]}" },
		{ "{\"one\":{\"name\":\"a\",\"unknown\":1}}", "one",
		  "{\"name\":\"a\",\"size\":7}" },
		{ "{\"one\":{\"name\":\"a\",\"size\":\"100\"}}", "one",
		  "{\"name\":\"a\",\"size\":100}" },
		{ "{\"strings\":[\"a\",\"\"]}", "strings", "[\"a\",\"\"]" },
		{ "{\"integers\":[1,\"2\",3.0,true]}", "integers", "[1,2,3,1]" },
		{ "{\"integers\":[]}", "integers", "[]" },
		{ "{\"numbers\":[\"1.5\"]}", "numbers", "[1.5]" },
		{ "{\"flags\":[1,\"no\",true]}", "flags", "[true,false,true]" },
		{ "{\"inners\":[{\"name\":\"a\"},{\"name\":\"b\",\"size\":1}]}", "inners",
		  "[{\"name\":\"a\",\"size\":7},{\"name\":\"b\",\"size\":1}]" },
		{ "{\"colours\":[\"red\",\"red\"]}", "colours", "[\"red\",\"red\"]" },
		{ "{\"frees\":[null,{},[1]]}", "frees", "[null,{},[1]]" },
		{ "{\"texts\":[\"a\\u0000\",\"\"]}", "texts", "[\"a\\u0000\",\"\"]" },
		{ "{\"maybes\":[true,0]}", "maybes", "[true,false]" },
		{ "{\"usual\":[]}", "usual", "[]" },
		{ "{\"usual\":[\"c\"]}", "usual", "[\"c\"]" },
		{ "{\"actions\":[{\"kind\":\"MOVE\",\"x\":1},{\"kind\":\"TYPE\",\"text\":\"t\"}]}",
		  "actions", "[{\"kind\":\"MOVE\",\"x\":1},{\"kind\":\"TYPE\",\"text\":\"t\"}]" },
		{ "{\"map\":{\"a\":\"b\",\"\":\"c\"}}", "map", "{\"a\":\"b\",\"\":\"c\"}" },
		{ "{\"action\":{\"kind\":\"MOVE\",\"x\":\"3\"}}", "action",
		  "{\"kind\":\"MOVE\",\"x\":3}" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_value(rows[i].json, rows[i].member, rows[i].want);
}

/* Absent and null are the same: the default, or nothing. */
static void absent(void)
{
	static const char *const defaults[][2] = {
		{ "text", "null" },
		{ "path", "null" },
		{ "colour", "\"green\"" },
		{ "plain", "null" },
		{ "greeting", "\"hello\"" },
		{ "bytes", "null" },
		{ "greeting_bytes", "\"hello\"" },
		{ "integer", "5" },
		{ "any_integer", "null" },
		{ "number", "null" },
		{ "limited", "1.5" },
		{ "flag", "true" },
		{ "maybe", "null" },
		{ "surely", "true" },
		{ "free", "null" },
		{ "one", "null" },
		{ "strings", "[]" },
		{ "inners", "[]" },
		{ "usual", "[\"a\",\"b\"]" },
		{ "sizes", "[1,2]" },
		{ "map", "{}" },
		{ "action", "null" },
	};
	for (size_t i = 0; i < COUNT(defaults); i++) {
		char json[100];
		snprintf(json, sizeof json, "{\"%s\":null}", defaults[i][0]);
		check_value("{}", defaults[i][0], defaults[i][1]);
		check_value(json, defaults[i][0], defaults[i][1]);
	}
	struct got *got = decode_at(&all_schema, 0, "{}");
	const struct all *all = got->to;
	CHECK(!all->text && !all->bytes.data && all->any_integer == INT_ABSENT &&
	      isnan(all->number));
	CHECK(all->maybe == UNSET && all->surely == YES && !all->free && !all->one &&
	      !all->action.tag);
	CHECK(!all->strings.count && !all->map.count && all->flag);
	got_free(got);
	check_problems(&inner_schema, "{\"name\":null}",
		       "string_type body.name Input should be a valid string");
	check_problems(&inner_schema, "{}", "missing body.name Field required");
}

/* ---- what is refused, in pydantic's words ---- */

#define INT_TEXT   "Input should be a valid integer, unable to parse string as an integer"
#define SIZE_TEXT  "Unable to parse input string as an integer, exceeded maximum size"
#define FLOAT_TEXT "Input should be a valid number, unable to parse string as a number"
#define BOOL_TEXT  "Input should be a valid boolean, unable to interpret input"
#define MODEL_TEXT "Input should be a valid dictionary or object to extract fields from"

static void refused_scalars(void)
{
	static const char *const rows[][2] = {
		{ "{\"text\":1}", "string_type body.text Input should be a valid string" },
		{ "{\"text\":\"a\"}",
		  "string_too_short body.text String should have at least 2 characters" },
		{ "{\"text\":\"abcdef\"}",
		  "string_too_long body.text String should have at most 5 characters" },
		{ "{\"txt\":\"a\"}",
		  "string_too_short body.text String should have at least 2 characters" },
		{ "{\"plain\":\"\"}",
		  "string_too_short body.plain String should have at least 1 character" },
		{ "{\"plain\":\"ab\"}",
		  "string_too_long body.plain String should have at most 1 character" },
		{ "{\"text\":\"a\\u0000b\"}", "string_nul body.text Input should not contain NUL" },
		{ "{\"path\":\"a/b\"}", "path_not_absolute body.path Path should be absolute" },
		{ "{\"bytes\":\"\\u0000\\u0000\\u0000\\u0000\"}",
		  "string_too_long body.bytes String should have at most 3 characters" },
		{ "{\"bytes\":[]}", "string_type body.bytes Input should be a valid string" },
		{ "{\"colour\":\"RED\"}",
		  "enum body.colour Input should be 'red', 'green' or 'blue'" },
		{ "{\"colour\":\"red\\u0000\"}",
		  "enum body.colour Input should be 'red', 'green' or 'blue'" },
		{ "{\"colour\":1}", "enum body.colour Input should be 'red', 'green' or 'blue'" },
		{ "{\"integer\":11}",
		  "less_than_equal body.integer Input should be less than or equal to 10" },
		{ "{\"integer\":\"-11\"}",
		  "greater_than_equal body.integer Input should be greater than or equal to -10" },
		{ "{\"any_integer\":1.5}",
		  "int_from_float body.any_integer Input should be a valid integer, got a number with a fractional part" },
		{ "{\"any_integer\":[]}",
		  "int_type body.any_integer Input should be a valid integer" },
		{ "{\"any_integer\":\"\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1.5\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1.\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1e3\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"0x10\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1_\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1__0\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":\"1\\u0000\"}", "int_parsing body.any_integer " INT_TEXT },
		{ "{\"any_integer\":1e30}", "int_parsing_size body.any_integer " SIZE_TEXT },
		{ "{\"any_integer\":9223372036854775808}",
		  "int_parsing_size body.any_integer " SIZE_TEXT },
		{ "{\"any_integer\":-9223372036854775808}",
		  "int_parsing_size body.any_integer " SIZE_TEXT },
		{ "{\"any_integer\":\"99999999999999999999\"}",
		  "int_parsing_size body.any_integer " SIZE_TEXT },
		{ "{\"number\":{}}", "float_type body.number Input should be a valid number" },
		{ "{\"number\":\"1,5\"}", "float_parsing body.number " FLOAT_TEXT },
		{ "{\"number\":\"\"}", "float_parsing body.number " FLOAT_TEXT },
		{ "{\"number\":\"0x10\"}", "float_parsing body.number " FLOAT_TEXT },
		{ "{\"number\":\"nan(1)\"}", "float_parsing body.number " FLOAT_TEXT },
		{ "{\"number\":\"1\\u0000\"}", "float_parsing body.number " FLOAT_TEXT },
		{ "{\"number\":\"nan\"}",
		  "finite_number body.number Input should be a finite number" },
		{ "{\"number\":\"-Infinity\"}",
		  "finite_number body.number Input should be a finite number" },
		{ "{\"number\":\"1e999\"}",
		  "finite_number body.number Input should be a finite number" },
		{ "{\"limited\":0}", "greater_than body.limited Input should be greater than 0" },
		{ "{\"limited\":\"2.6\"}",
		  "less_than_equal body.limited Input should be less than or equal to 2.5" },
		{ "{\"flag\":2}", "bool_parsing body.flag " BOOL_TEXT },
		{ "{\"flag\":2.0}", "bool_parsing body.flag " BOOL_TEXT },
		{ "{\"flag\":1e30}", "bool_type body.flag Input should be a valid boolean" },
		{ "{\"flag\":\"yep\"}", "bool_parsing body.flag " BOOL_TEXT },
		{ "{\"flag\":\"yes\\u0000\"}", "bool_parsing body.flag " BOOL_TEXT },
		{ "{\"flag\":0.5}", "bool_type body.flag Input should be a valid boolean" },
		{ "{\"maybe\":[]}", "bool_type body.maybe Input should be a valid boolean" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_problems(&all_schema, rows[i][0], rows[i][1]);
}

static void refused_structures(void)
{
	static const char *const rows[][2] = {
		{ "{\"one\":1}", "model_attributes_type body.one " MODEL_TEXT },
		{ "{\"one\":{}}", "missing body.one.name Field required" },
		{ "{\"one\":{\"name\":1,\"size\":0}}",
		  "string_type body.one.name Input should be a valid string\n"
		  "greater_than_equal body.one.size Input should be greater than or equal to 1" },
		{ "{\"strings\":\"a\"}", "list_type body.strings Input should be a valid list" },
		{ "{\"strings\":{}}", "list_type body.strings Input should be a valid list" },
		{ "{\"strings\":[]}",
		  "too_short body.strings List should have at least 1 item after validation, not 0" },
		{ "{\"strings\":[1,2,3,4]}",
		  "too_long body.strings List should have at most 3 items after validation, not 4" },
		{ "{\"numbers\":[1,2]}",
		  "too_long body.numbers List should have at most 1 item after validation, not 2" },
		{ "{\"flags\":[1]}",
		  "too_short body.flags List should have at least 2 items after validation, not 1" },
		{ "{\"strings\":[\"a\",1,null]}",
		  "string_type body.strings.1 Input should be a valid string\n"
		  "string_type body.strings.2 Input should be a valid string" },
		{ "{\"inners\":[{\"name\":\"a\"},{},3]}",
		  "missing body.inners.1.name Field required\n"
		  "model_attributes_type body.inners.2 " MODEL_TEXT },
		{ "{\"colours\":[\"red\",\"pink\"]}",
		  "enum body.colours.1 Input should be 'red', 'green' or 'blue'" },
		{ "{\"map\":[]}", "dict_type body.map Input should be a valid dictionary" },
		{ "{\"map\":{\"a\":1,\"b\":\"x\"}}",
		  "string_type body.map.a Input should be a valid string" },
		{ "{\"action\":1}", "model_attributes_type body.action " MODEL_TEXT },
		{ "{\"action\":{}}",
		  "union_tag_not_found body.action Unable to extract tag using discriminator 'kind'" },
		{ "{\"action\":{\"kind\":\"NO\"}}",
		  "union_tag_invalid body.action Input tag 'NO' found using 'kind' does not match any of the "
		  "expected tags: 'MOVE', 'TYPE'" },
		{ "{\"action\":{\"kind\":1}}",
		  "union_tag_invalid body.action Input tag '1' found using 'kind' does not match any of the "
		  "expected tags: 'MOVE', 'TYPE'" },
		{ "{\"action\":{\"kind\":\"MOVE\\u0000\",\"x\":1}}",
		  "union_tag_invalid body.action Input tag 'MOVE' found using 'kind' does not match any of the "
		  "expected tags: 'MOVE', 'TYPE'" },
		{ "{\"action\":{\"kind\":\"MOVE\"}}", "missing body.action.MOVE.x Field required" },
		{ "{\"actions\":[{\"kind\":\"TYPE\",\"text\":1}]}",
		  "string_type body.actions.0.TYPE.text Input should be a valid string" },
		{ "{\"text\":1,\"integer\":\"x\"}",
		  "string_type body.text Input should be a valid string\n"
		  "int_parsing body.integer " INT_TEXT },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_problems(&all_schema, rows[i][0], rows[i][1]);
	check_problems(&action_schema, "{\"kind\":\"TYPE\"}",
		       "missing body.TYPE.text Field required");
	check_problems(&action_schema, "{}",
		       "union_tag_not_found body Unable to extract tag using discriminator 'kind'");
}

/* ---- what the caller sends does not make the answer large or broken ---- */

static char *repeated(const char *first, const char *item, const char *last, size_t count)
{
	struct buf text = BUF(64 << 20);
	buf_str(&text, first);
	for (size_t i = 0; i < count; i++)
		buf_str(&text, item);
	buf_str(&text, last);
	return text.data;
}

static json_t *first_problem(struct got *got, const char *member)
{
	buf_str(&got->problems.json, "]");
	json_t *list = json_parse(got->problems.json.data, got->problems.json.len, NULL);
	json_t *found = json_incref(json_object_get(json_array_get(list, 0), member));
	json_decref(list);
	return found;
}

static void echoed(size_t count, bool kept)
{
	char *json = repeated("{\"text\":\"", "x", "\"}", count);
	struct got *got = decode_at(&all_schema, 0, json);
	json_t *input = first_problem(got, "input");
	CHECK(kept ? json_string_length(input) == count : json_is_null(input));
	json_decref(input);
	got_free(got);
	free(json);
}

static void capped(void)
{
	echoed(1000, true);
	echoed(1022, true);
	echoed(1023, false);
	echoed(100000, false);
	char *json = repeated("{\"integers\":[null", ",null", "]}", 2000);
	struct got *got = decode_at(&all_schema, 0, json);
	CHECK(got->problems.count == 2001);
	buf_str(&got->problems.json, "]");
	json_t *list = json_parse(got->problems.json.data, got->problems.json.len, NULL);
	CHECK(json_array_size(list) == 100);
	json_decref(list);
	got_free(got);
	free(json);
	json = repeated("{\"map\":{\"a", "\xe2\x82\xac", "\":1}}", 1 << 20);
	got = decode_at(&all_schema, 0, json);
	json_t *loc = first_problem(got, "loc");
	size_t len = json_string_length(json_array_get(loc, 2));
	CHECK(len > 200 && len <= 256 && (len - 1) % 3 == 0);
	json_decref(loc);
	got_free(got);
	free(json);
	/* As bad as it gets: every problem has a long key and a long input, all to be escaped. */
	struct buf bad = BUF(1 << 20);
	buf_str(&bad, "{\"map\":{");
	for (int i = 0; i < 120; i++) {
		buf_printf(&bad, "%s\"%d", i ? "," : "", i);
		for (int k = 0; k < 300; k++)
			buf_str(&bad, "\\u0001");
		buf_str(&bad, "\":[\"");
		for (int k = 0; k < 160; k++)
			buf_str(&bad, "\\u0001");
		buf_str(&bad, "\"]");
	}
	buf_str(&bad, "}}");
	got = decode_at(&all_schema, 0, bad.data);
	buf_str(&got->problems.json, "]");
	list = json_parse(got->problems.json.data, got->problems.json.len, NULL);
	CHECK(got->problems.count == 120 && json_array_size(list) == 100);
	json_decref(list);
	got_free(got);
	buf_done(&bad);
}

/* ---- places, files, answers ---- */

struct place {
	const char *id, *q, *header, *body;
	struct upload *file;
};
static const struct field place_fields[] = {
	STR(place, id, PATH | REQUIRED, NULL),   STR(place, q, QUERY, NULL, .def = "none"),
	STR(place, header, HEADER, NULL),        STR(place, body, OPTIONAL, NULL),
	FILE_FIELD(place, file, REQUIRED, NULL),
};
static const struct schema place_schema = SCHEMA(place, "Place", place_fields);

static void places(void)
{
	static const char json[] = "{\"id\":\"1\",\"q\":\"2\",\"header\":\"3\",\"body\":\"4\"}";
	struct got *got = decode_at(&place_schema, PATH, json);
	const struct place *place = got->to;
	CHECK_STR(place->id, "1");
	CHECK(!place->q && !place->header && !place->body && !got->problems.count);
	desc_decode(&place_schema, QUERY, got->from, &(struct loc){ .key = "query" }, &got->arena,
		    got->to, &got->problems);
	CHECK_STR(place->q, "2");
	CHECK_STR(place->id, "1");
	CHECK(!place->body);
	got_free(got);
	check_problems(&place_schema, json, "missing body.file Field required");
	check_problems(&place_schema, "{\"file\":\"x\"}",
		       "value_error body.file Expected a file, sent as multipart/form-data");
	got = decode_at(&place_schema, PATH, json);
	place = got->to;
	struct upload upload = { .fd = -1 };
	((struct place *)got->to)->file = &upload;
	desc_decode(&place_schema, 0, got->from, &(struct loc){ .key = "body" }, &got->arena,
		    got->to, &got->problems);
	CHECK(!got->problems.count && place->file == &upload);
	CHECK_STR(place->body, "4");
	got_free(got);
}

struct answer {
	struct text data;
	struct list lists;
	const char *name;
};
static const struct field answer_fields[] = {
	TEXT(answer, data, BASE64 | NULLABLE, NULL),
	LIST(answer, lists, NULLABLE, NULL, .item = T_STR),
	STR(answer, name, NULLABLE, NULL),
};
static const struct schema answer_schema = SCHEMA(answer, "Answer", answer_fields);

static void check_encoded(const struct schema *schema, const void *from, const char *want)
{
	struct jw jw;
	jw_init(&jw, 10000);
	desc_encode(schema, from, &jw);
	CHECK_STR(jw.out.data, want);
	jw_done(&jw);
}

static void encoded(void)
{
	struct answer answer = { .data = { "\xff\0\xfe", 3 }, .name = "\xff" };
	check_encoded(&answer_schema, &answer,
		      "{\"data\":\"/wD+\",\"lists\":null,\"name\":\"\xef\xbf\xbd\"}");
	answer = (struct answer){ .data = { "", 0 }, .lists = { 0, "" } };
	check_encoded(&answer_schema, &answer, "{\"data\":\"\",\"lists\":[],\"name\":null}");
	check_encoded(&action_schema, &(struct tagged){ 0 }, "null");
	check_encoded(&action_schema, &(struct tagged){ "NO", &answer }, "null");
	check_encoded(&action_schema, &(struct tagged){ "MOVE", &(struct move){ "MOVE", 3 } },
		      "{\"kind\":\"MOVE\",\"x\":3}");
}

struct shelf {
	struct list things;
	struct stream text;
};
static const struct field shelf_fields[] = {
	MAP(shelf, things, 0, NULL, .item = T_OBJ, .of = &move_schema),
	STREAM(shelf, text, NULLABLE, NULL),
};
static const struct schema shelf_schema = SCHEMA(shelf, "Shelf", shelf_fields);

struct source {
	const char *text;
	size_t len, most; /* bytes that one call gives */
};

static size_t read_source(void *arg, int64_t at, char *to, size_t room)
{
	const struct source *source = arg;
	size_t left = source->len - (size_t)at, n = left < room ? left : room;
	n = n < source->most ? n : source->most;
	memcpy(to, source->text + at, n);
	return n;
}

static void check_stream(const struct stream *text, const char *want, size_t len)
{
	struct shelf shelf = { .text = *text };
	struct jw jw;
	jw_init(&jw, 1 << 20);
	desc_encode(&shelf_schema, &shelf, &jw);
	json_t *object = json_parse(jw.out.data, jw.out.len, NULL);
	const json_t *got = json_object_get(object, "text");
	CHECK(json_string_length(got) == len && !memcmp(json_string_value(got), want, len));
	json_decref(object);
	jw_done(&jw);
}

/* However the pieces fall, no character is broken. */
static void streamed(void)
{
	enum { SIZE = 100000 };
	char *text = xmalloc(SIZE);
	struct source source = { text, SIZE, 0 };
	struct stream stream = { .read = read_source, .arg = &source, .end = SIZE };
	for (size_t shift = 0; shift < 4; shift++)
		for (source.most = 1; source.most <= 1 << 20; source.most *= 7) {
			memset(text, 'x', SIZE);
			for (size_t i = shift; i + 4 <= SIZE; i += 4)
				memcpy(text + i, "\xf0\x9f\x98\x80", 4);
			check_stream(&stream, text, SIZE);
		}
	stream.start = 4;
	stream.cut = 8;
	stream.resume = SIZE - 1;
	snprintf(stream.middle, sizeof stream.middle, "[...]");
	memset(text, 'x', SIZE);
	memcpy(text + 4, "\xf0\x9f\x98\x80", 4);
	check_stream(&stream, "\xf0\x9f\x98\x80[...]x", 10);
	stream.end = SIZE * 2; /* more is said than there is */
	check_stream(&stream, "\xf0\x9f\x98\x80[...]x", 10);
	free(text);
	struct move move = { "MOVE", 3 };
	struct named things[] = { { "a", &move }, { "b\n", &move } };
	check_encoded(&shelf_schema, &(struct shelf){ .things = { 2, things } },
		      "{\"things\":{\"a\":{\"kind\":\"MOVE\",\"x\":3},"
		      "\"b\\n\":{\"kind\":\"MOVE\",\"x\":3}},\"text\":null}");
}

/* ---- JSON Schema ---- */

static void check_schema(const struct field *field, bool answer, const char *want)
{
	struct jw jw;
	jw_init(&jw, 10000);
	desc_field_schema(field, answer, &jw);
	if (!CHECK_STR(jw.out.data, want))
		printf("# for %s\n", field->name);
	jw_done(&jw);
}

static const struct field *field_of(const char *name)
{
	for (size_t i = 0; i < COUNT(all_fields); i++)
		if (!strcmp(all_fields[i].name, name))
			return &all_fields[i];
	return NULL;
}

static void field_schemas(void)
{
	static const char *const rows[][2] = {
		{ "text",
		  "{\"anyOf\":[{\"type\":\"string\",\"minLength\":2,\"maxLength\":5},{\"type\":\"null\"}],"
		  "\"description\":\"Some text.\"}" },
		{ "path",
		  "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^(/|$)\"},{\"type\":\"null\"}],"
		  "\"description\":\"An absolute path.\"}" },
		{ "colour",
		  "{\"type\":\"string\",\"enum\":[\"red\",\"green\",\"blue\"],\"default\":\"green\","
		  "\"description\":\"A colour.\"}" },
		{ "greeting_bytes", "{\"type\":\"string\",\"default\":\"hello\"}" },
		{ "integer", "{\"type\":\"integer\",\"minimum\":-10,\"maximum\":10,\"default\":5,"
			     "\"description\":\"An integer.\"}" },
		{ "limited",
		  "{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":2.5,\"default\":1.5}" },
		{ "flag", "{\"type\":\"boolean\",\"default\":true}" },
		{ "maybe", "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"null\"}]}" },
		{ "free", "{}" },
		{ "one",
		  "{\"anyOf\":[{\"$ref\":\"#/components/schemas/Inner\"},{\"type\":\"null\"}]}" },
		{ "strings", "{\"anyOf\":[{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,"
			     "\"items\":{\"type\":\"string\"}},{\"type\":\"null\"}]}" },
		{ "inners",
		  "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Inner\"}},"
		  "{\"type\":\"null\"}]}" },
		{ "colours",
		  "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"red\","
		  "\"green\",\"blue\"]}},{\"type\":\"null\"}]}" },
		{ "frees", "{\"anyOf\":[{\"type\":\"array\",\"items\":{}},{\"type\":\"null\"}]}" },
		{ "map",
		  "{\"anyOf\":[{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
		  "{\"type\":\"null\"}]}" },
		{ "action",
		  "{\"anyOf\":[{\"$ref\":\"#/components/schemas/Action\"},{\"type\":\"null\"}]}" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_schema(field_of(rows[i][0]), false, rows[i][1]);
	check_schema(&inner_fields[0], false,
		     "{\"type\":\"string\",\"maxLength\":10,\"description\":\"A name.\"}");
	check_schema(&place_fields[0], false, "{\"type\":\"string\"}");
	check_schema(&place_fields[4], false,
		     "{\"type\":\"string\",\"contentMediaType\":\"application/octet-stream\"}");
	/* In an answer only what says so may be null, and there are no defaults. */
	check_schema(field_of("maybe"), true, "{\"type\":\"boolean\"}");
	check_schema(field_of("flag"), true, "{\"type\":\"boolean\"}");
	check_schema(&shelf_fields[0], true,
		     "{\"type\":\"object\",\"additionalProperties\":"
		     "{\"$ref\":\"#/components/schemas/Move\"}}");
	check_schema(&shelf_fields[1], true,
		     "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}");
	check_schema(
		&answer_fields[0], true,
		"{\"anyOf\":[{\"type\":\"string\",\"contentEncoding\":\"base64\"},{\"type\":\"null\"}]}");
}

static void check_object_schema(const struct schema *schema, unsigned place, bool answer,
				const char *want)
{
	struct jw jw;
	jw_init(&jw, 10000);
	desc_schema(schema, place, answer, &jw);
	CHECK_STR(jw.out.data, want);
	jw_done(&jw);
}

static void object_schemas(void)
{
	check_object_schema(
		&inner_schema, 0, false,
		"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":10,"
		"\"description\":\"A name.\"},\"size\":{\"type\":\"integer\",\"minimum\":1,"
		"\"maximum\":100,\"default\":7,\"description\":\"A size.\"}},\"required\":[\"name\"],"
		"\"title\":\"Inner\"}");
	check_object_schema(
		&move_schema, 0, true,
		"{\"type\":\"object\",\"properties\":{\"kind\":{\"type\":\"string\","
		"\"enum\":[\"MOVE\"],\"description\":\"Which.\"},\"x\":{\"type\":\"integer\","
		"\"description\":\"Where.\"}},\"required\":[\"kind\",\"x\"],\"title\":\"Move\"}");
	check_object_schema(
		&action_schema, 0, false,
		"{\"oneOf\":[{\"$ref\":\"#/components/schemas/Move\"},"
		"{\"$ref\":\"#/components/schemas/Type\"}],\"discriminator\":{\"propertyName\":"
		"\"kind\",\"mapping\":{\"MOVE\":\"#/components/schemas/Move\","
		"\"TYPE\":\"#/components/schemas/Type\"}},\"title\":\"Action\","
		"\"description\":\"Either.\"}");
	check_object_schema(&place_schema, QUERY, false,
			    "{\"type\":\"object\",\"properties\":{\"q\":{\"type\":\"string\","
			    "\"default\":\"none\"}},\"title\":\"Place\"}");
	struct jw jw;
	jw_init(&jw, 1000);
	desc_schema_ref(&inner_schema, &jw);
	CHECK_STR(jw.out.data, "{\"$ref\":\"#/components/schemas/Inner\"}");
	jw_done(&jw);
}

struct seen {
	const struct schema *schemas[1000];
	size_t count;
	const char *twice;
};

/* The document calls a component by its name, so that no two may share one. */
static bool see(const struct schema *schema, void *arg)
{
	struct seen *seen = arg;
	for (size_t i = 0; i < seen->count; i++) {
		if (seen->schemas[i] == schema)
			return false;
		if (!strcmp(seen->schemas[i]->name, schema->name))
			seen->twice = schema->name;
	}
	seen->schemas[seen->count++] = schema;
	return seen->count < COUNT(seen->schemas);
}

static void walking(void)
{
	struct seen *seen = xcalloc(1, sizeof *seen);
	desc_walk(&all_schema, see, seen);
	CHECK(seen->count == 5 && !seen->twice);
	*seen = (struct seen){ 0 };
	for (size_t g = 0; api_groups[g]; g++)
		for (size_t i = 0; i < api_groups[g]->count; i++) {
			const struct route *route = &api_groups[g]->routes[i];
			if (route->in)
				desc_walk(route->in, see, seen);
			if (route->data && route->data->of)
				desc_walk(route->data->of, see, seen);
			if (route->extra)
				desc_walk(route->extra, see, seen);
		}
	CHECK(seen->count > 0 && seen->count < COUNT(seen->schemas));
	CHECK_STR(seen->twice, NULL);
	free(seen);
}

struct strict {
	int64_t memory, io_weight, hidden;
	const char *mode, *id;
	const struct strict *inner;
	struct list inners;
};
static const struct schema strict_schema;
static const struct field strict_fields[] = {
	INT(strict, memory, OPTIONAL, "Bytes."),
	INT(strict, io_weight, OPTIONAL, "Share.", .alias = "ioWeight,weight"),
	INT(strict, hidden, HIDDEN, NULL),
	STR(strict, mode, OPTIONAL, "Mode."),
	STR(strict, id, PATH | REQUIRED, "Id."),
	OBJ(strict, inner, OPTIONAL, "Another.", .of = &strict_schema),
	LIST(strict, inners, OPTIONAL, "Others.", .item = T_OBJ, .of = &strict_schema),
};
static const struct schema strict_schema = SCHEMA(strict, "Strict", strict_fields, .strict = true);

static void strict(void)
{
	static const char *const rows[][2] = {
		{ "{\"memory\":1,\"weight\":2,\"ioWeight\":2,\"hidden\":3,\"inner\":{\"mode\":\"a\"}}",
		  "" },
		{ "{\"memroy\":1}",
		  "extra_forbidden body.memroy Unknown field 'memroy': did you mean 'memory'?" },
		{ "{\"inner\":{\"io_wieght\":null}}",
		  "extra_forbidden body.inner.io_wieght Unknown field 'io_wieght': did you mean 'io_weight'?" },
		{ "{\"inners\":[{},{\"elephant\":[]}]}",
		  "extra_forbidden body.inners.1.elephant Unknown field 'elephant'" },
		{ "{\"hiden\":1,\"Mode\":\"a\"}",
		  "extra_forbidden body.hiden Unknown field 'hiden'\n"
		  "extra_forbidden body.Mode Unknown field 'Mode': did you mean 'mode'?" },
		/* One of the path is none of the body. */
		{ "{\"id\":\"a\"}", "extra_forbidden body.id Unknown field 'id'" },
		{ "{\"\":1}", "extra_forbidden body. Unknown field ''" },
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		check_problems(&strict_schema, rows[i][0], rows[i][1]);
	struct jw jw;
	jw_init(&jw, 65536);
	desc_schema(&strict_schema, 0, false, &jw);
	CHECK(strstr(jw.out.data, "\"additionalProperties\":false"));
	jw_done(&jw);
	CHECK(nearest_distance("", "") == 0 && nearest_distance("abc", "") == 3);
	CHECK(nearest_distance("kitten", "sitting") == 3 && nearest_distance("ab", "ba") == 1);
}

int main(void)
{
	strict();
	accepted();
	absent();
	refused_scalars();
	refused_structures();
	capped();
	places();
	encoded();
	streamed();
	field_schemas();
	object_schemas();
	walking();
	return tap_done();
}
