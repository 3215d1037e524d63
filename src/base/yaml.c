#include "base/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/err.h"
#include "base/own.h"

struct yaml_reader {
	yaml_parser_t parser;
	json_t *stack[YAML_DEPTH_MAX]; /* what is open, each owned by the one below; [0] by us */
	json_t *keys[YAML_DEPTH_MAX];  /* of an open mapping: the key that waits for its value */
	size_t depth;
	json_t *result;
};

static int refuse(const yaml_mark_t *mark, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "line %zu: %s", mark->line + 1, what);
}

/* A number as JSON has it, or NULL. Leading zeroes, as in an id, stay text. */
static json_t *number(const char *text, size_t len)
{
	const char *digits = text + (*text == '-' || *text == '+');
	char *end;
	if (!len || len > 40 || strspn(text, "0123456789+-.eE") != len || !*digits ||
	    strspn(digits, "0123456789") == 0 ||
	    (digits[0] == '0' && strchr("0123456789", digits[1]) && digits[1]))
		return NULL;
	errno = 0;
	long long integer = strtoll(text, &end, 10);
	if (!*end && !errno)
		return json_integer(integer);
	double real = strtod(text, &end);
	return *end || !isfinite(real) ? NULL : json_real(real);
}

static json_t *scalar(const yaml_event_t *event)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	static const char *const yes[] = { "true", "True", "TRUE" };
	static const char *const no[] = { "false", "False", "FALSE" };
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
		for (size_t i = 0; i < COUNT(nulls); i++)
			if (!strcmp(text, nulls[i]))
				return json_null();
		for (size_t i = 0; i < COUNT(yes); i++)
			if (!strcmp(text, yes[i]) || !strcmp(text, no[i]))
				return json_boolean(!strcmp(text, yes[i]));
		json_t *value = number(text, len);
		if (value)
			return value;
	}
	return json_stringn(text, len);
}

/* Puts a value where it belongs; it is taken. */
static int place(struct yaml_reader *r, json_t *value, const yaml_event_t *event, struct err *err)
{
	json_t *top = r->depth ? r->stack[r->depth - 1] : NULL;
	if (!value)
		return refuse(&event->start_mark, "text that is not UTF-8", err);
	if (!top) {
		r->result = value;
		return 0;
	}
	if (json_is_array(top))
		return json_array_append_new(top, value);
	json_t **key = &r->keys[r->depth - 1];
	const char *name = json_string_value(*key);
	int result = json_object_setn_new(top, name, json_string_length(*key), value);
	json_decref(*key);
	*key = NULL;
	return result < 0 ? refuse(&event->start_mark, "a key that cannot be one", err) : 0;
}

static bool wants_key(const struct yaml_reader *r)
{
	return r->depth && json_is_object(r->stack[r->depth - 1]) && !r->keys[r->depth - 1];
}

static int open_value(struct yaml_reader *r, json_t *value, const yaml_event_t *event,
		      struct err *err)
{
	if (wants_key(r) || r->depth == YAML_DEPTH_MAX) {
		json_decref(value);
		return refuse(&event->start_mark,
			      wants_key(r) ? "a key that is not text" : "nested too deeply", err);
	}
	if (place(r, value, event, err) < 0)
		return -1;
	r->keys[r->depth] = NULL;
	r->stack[r->depth++] = value;
	return 0;
}

static int take_scalar(struct yaml_reader *r, const yaml_event_t *event, struct err *err)
{
	if (!wants_key(r))
		return place(r, scalar(event), event, err);
	r->keys[r->depth - 1] =
		json_stringn((const char *)event->data.scalar.value, event->data.scalar.length);
	return r->keys[r->depth - 1] ? 0
				     : refuse(&event->start_mark, "a key that is not text", err);
}

/* 1 at the end of the first document. */
static int take(struct yaml_reader *r, const yaml_event_t *event, struct err *err)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return take_scalar(r, event, err);
	case YAML_SEQUENCE_START_EVENT:
		return open_value(r, json_array(), event, err);
	case YAML_MAPPING_START_EVENT:
		return open_value(r, json_object(), event, err);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		r->depth--;
		return 0;
	case YAML_ALIAS_EVENT:
		return refuse(&event->start_mark, "aliases are not supported", err);
	case YAML_DOCUMENT_END_EVENT:
	case YAML_STREAM_END_EVENT:
		return 1;
	default:
		return 0;
	}
}

static int read_all(struct yaml_reader *r, struct err *err)
{
	int result = 0;
	while (result == 0) {
		yaml_event_t event;
		if (!yaml_parser_parse(&r->parser, &event))
			return err_set(err, ERR_INVALID, "line %zu: %s",
				       r->parser.problem_mark.line + 1,
				       r->parser.problem ? r->parser.problem : "not YAML");
		result = take(r, &event, err);
		yaml_event_delete(&event);
	}
	return result < 0 ? -1 : 0;
}

json_t *yaml_parse(const char *text, size_t len, struct err *err)
{
	struct yaml_reader r = { .depth = 0 };
	if (len > YAML_MAX) {
		err_set(err, ERR_INVALID, "longer than %d bytes", YAML_MAX);
		return NULL;
	}
	if (!yaml_parser_initialize(&r.parser)) {
		err_set(err, ENOMEM, "YAML");
		return NULL;
	}
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	int result = read_all(&r, err);
	yaml_parser_delete(&r.parser);
	for (size_t i = 0; i < r.depth; i++)
		json_decref(r.keys[i]);
	if (result < 0) {
		json_decref(r.result);
		return NULL;
	}
	return r.result ? r.result : json_null();
}
