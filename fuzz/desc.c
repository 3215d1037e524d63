/* JSON into a struct with fields of every type: what is accepted must encode to something that is
 * accepted without a problem and encodes to the same; what is not must give well-formed problems. */
#include "base/desc.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

struct inner {
	const char *name;
	int64_t size;
};
static const struct field inner_fields[] = {
	STR(inner, name, REQUIRED, NULL, .max_len = 10),
	INT(inner, size, MIN | MAX | SIZED, NULL, .def = "7", .min = 1, .max = 100),
};
static const struct schema inner_schema = SCHEMA(inner, "Inner", inner_fields);

struct move {
	const char *kind;
	int64_t x;
};
struct type {
	const char *kind;
	struct text text;
};
static const char *const move_tag[] = { "MOVE", NULL }, *const type_tag[] = { "TYPE", NULL };
static const struct field move_fields[] = {
	ENUM(move, kind, REQUIRED, NULL, .choices = move_tag),
	INT(move, x, REQUIRED, NULL),
};
static const struct field type_fields[] = {
	ENUM(type, kind, REQUIRED, NULL, .choices = type_tag),
	TEXT(type, text, REQUIRED, NULL),
};
static const struct schema move_schema = SCHEMA(move, "Move", move_fields);
static const struct schema type_schema = SCHEMA(type, "Type", type_fields);
static const struct variant variants[] = { { "MOVE", &move_schema }, { "TYPE", &type_schema } };
static const struct schema action_schema = TAGGED("Action", "kind", variants);

static const char *const colours[] = { "red", "green", NULL };

struct all {
	const char *str, *path, *colour;
	struct text text;
	int64_t integer;
	double number;
	bool flag;
	enum tri maybe;
	json_t *any;
	const struct inner *one;
	struct list strs, texts, integers, numbers, flags, maybes, colours, anys, inners, actions,
		map;
	struct tagged action;
};
static const struct field all_fields[] = {
	STR(all, str, OPTIONAL, NULL, .min_len = 1, .max_len = 5, .alias = "s,string"),
	STR(all, path, ABSPATH, NULL),
	ENUM(all, colour, OPTIONAL, NULL, .choices = colours, .def = "red"),
	TEXT(all, text, OPTIONAL, NULL, .max_len = 9),
	INT(all, integer, MIN, NULL, .min = -5),
	NUM(all, number, ABOVE | MAX, NULL, .min = 0, .max = 1e300),
	BOOL(all, flag, OPTIONAL, NULL, .def = "true"),
	TRI(all, maybe, OPTIONAL, NULL),
	JSON(all, any, OPTIONAL, NULL),
	OBJ(all, one, OPTIONAL, NULL, .of = &inner_schema),
	LIST(all, strs, OPTIONAL, NULL, .item = T_STR, .max_len = 3),
	LIST(all, texts, OPTIONAL, NULL, .item = T_TEXT),
	LIST(all, integers, OPTIONAL, NULL, .item = T_INT),
	LIST(all, numbers, OPTIONAL, NULL, .item = T_NUM),
	LIST(all, flags, OPTIONAL, NULL, .item = T_BOOL),
	LIST(all, maybes, OPTIONAL, NULL, .item = T_TRI),
	LIST(all, colours, OPTIONAL, NULL, .item = T_ENUM, .choices = colours),
	LIST(all, anys, OPTIONAL, NULL, .item = T_JSON),
	LIST(all, inners, OPTIONAL, NULL, .item = T_OBJ, .of = &inner_schema),
	LIST(all, actions, OPTIONAL, NULL, .item = T_UNION, .of = &action_schema),
	MAP(all, map, OPTIONAL, NULL),
	UNION(all, action, OPTIONAL, NULL, .of = &action_schema),
};
static const struct schema all_schema = SCHEMA(all, "All", all_fields);

/* Decodes and, where there is no problem, encodes into jw. */
static size_t round_trip(const json_t *from, struct jw *jw)
{
	struct arena arena = { 0 };
	struct all all = { 0 };
	struct problems problems = { 0 };
	desc_decode(&all_schema, 0, from, &(struct loc){ .key = "body" }, &arena, &all, &problems);
	if (problems.count) {
		buf_str(&problems.json, "]");
		json_t *list = json_parse(problems.json.data, problems.json.len, NULL);
		size_t want = problems.count < 100 ? problems.count : 100;
		if (json_array_size(list) != want)
			abort();
		json_decref(list);
	} else {
		desc_encode(&all_schema, &all, jw);
	}
	buf_done(&problems.json);
	arena_done(&arena);
	return problems.count;
}

/* As a message, whose wrong fields are absent: those that are there hold to their limits. */
static void take_message(const char *text, size_t size)
{
	struct arena arena = { 0 };
	struct all all = { 0 };
	struct tagged action = { 0 };
	if (desc_message(&all_schema, text, size, &arena, &all) == 0 &&
	    ((all.integer != INT_ABSENT && all.integer < -5) || (all.str && !*all.str)))
		abort();
	if (desc_message(&action_schema, text, size, &arena, &action) == 0 &&
	    !action.tag != !action.value)
		abort();
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	take_message((const char *)input, size);
	auto_free char *text = xmalloc(size ? size : 1);
	memcpy(text, input, size);
	json_t *from = json_parse(text, size, NULL);
	struct jw first, second;
	jw_init(&first, 64 << 20);
	jw_init(&second, 64 << 20);
	if (json_is_object(from) && round_trip(from, &first) == 0) {
		auto_free char *copy = xstrndup(first.out.data, first.out.len);
		json_t *again = json_parse(copy, first.out.len, NULL);
		if (!again || round_trip(again, &second) != 0)
			abort();
		if (first.out.len != second.out.len ||
		    memcmp(first.out.data, second.out.data, first.out.len) != 0)
			abort();
		json_decref(again);
	}
	json_decref(from);
	jw_done(&first);
	jw_done(&second);
	return 0;
}
