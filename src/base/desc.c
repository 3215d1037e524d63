#include "base/desc.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/size.h"
#include "base/utf8.h"

/* Whatever is wrong, a problem fits its size, and all of them fit theirs. */
enum {
	PROBLEMS_MAX = 100,
	KEY_MAX = 256,
	INPUT_MAX = 1024,
	PROBLEM_SIZE_MAX = 1 << 14,
	PROBLEMS_SIZE_MAX = PROBLEMS_MAX * PROBLEM_SIZE_MAX,
};

/* ---- problems ---- */

static void put_loc(const struct loc *loc, struct jw *jw)
{
	if (loc->up)
		put_loc(loc->up, jw);
	if (!loc->key) {
		jw_int(jw, (int64_t)loc->index);
		return;
	}
	size_t len = strnlen(loc->key, KEY_MAX + 1); /* a map's key is the caller's */
	if (len > KEY_MAX)
		len = KEY_MAX - utf8_partial(loc->key, KEY_MAX);
	jw_text(jw, loc->key, len);
}

/* The input as the caller sent it, unless that is long. */
static void put_input(const json_t *input, struct jw *jw)
{
	struct jw copy;
	jw_init(&copy, INPUT_MAX);
	jw_json(&copy, input);
	if (jw_failed(&copy))
		jw_null(jw);
	else
		jw_raw(jw, copy.out.data, copy.out.len);
	jw_done(&copy);
}

void desc_problem(struct problems *problems, const char *type, const struct loc *loc,
		  const char *message, const json_t *input)
{
	if (problems->count++ >= PROBLEMS_MAX)
		return;
	struct jw jw;
	jw_init(&jw, PROBLEM_SIZE_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "type", type);
	jw_key(&jw, "loc");
	jw_open(&jw, '[');
	put_loc(loc, &jw);
	jw_close(&jw, ']');
	jw_key_str(&jw, "msg", message);
	jw_key(&jw, "input");
	put_input(input, &jw);
	jw_close(&jw, '}');
	problems->json.cap = PROBLEMS_SIZE_MAX;
	buf_str(&problems->json, problems->json.len ? "," : "[");
	buf_add(&problems->json, jw.out.data, jw.out.len);
	jw_done(&jw);
}

/* One value on its way into a struct. */
struct take {
	const struct field *field;
	const struct loc *loc;
	struct arena *arena;
	struct problems *problems;
};

__attribute__((format(printf, 4, 5))) static void refuse(const struct take *take, const char *type,
							 const json_t *input, const char *format,
							 ...)
{
	char message[512];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(message, sizeof message, format, args);
	va_end(args);
	if (take->field->example && len >= 0 && len < (int)sizeof message)
		snprintf(message + len, sizeof message - (size_t)len, ", such as %s",
			 take->field->example);
	desc_problem(take->problems, type, take->loc, message, input);
}

/* ---- values ---- */

static size_t characters(const char *text, size_t len)
{
	size_t count = 0;
	for (size_t i = 0; i < len; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

static bool check_string(const struct take *take, const json_t *value)
{
	if (!json_is_string(value)) {
		refuse(take, "string_type", value, "Input should be a valid string");
		return false;
	}
	const struct field *f = take->field;
	size_t count = characters(json_string_value(value), json_string_length(value));
	if (f->max_len && count > f->max_len)
		refuse(take, "string_too_long", value, "String should have at most %zu character%s",
		       f->max_len, f->max_len == 1 ? "" : "s");
	else if (count < f->min_len)
		refuse(take, "string_too_short", value,
		       "String should have at least %zu character%s", f->min_len,
		       f->min_len == 1 ? "" : "s");
	else
		return true;
	return false;
}

static void take_str(const struct take *take, const json_t *value, const char **to)
{
	if (!check_string(take, value))
		return;
	const char *text = json_string_value(value);
	if (strlen(text) != json_string_length(value))
		refuse(take, "string_nul", value, "Input should not contain NUL");
	else if (take->field->flags & ABSPATH && *text && *text != '/')
		refuse(take, "path_not_absolute", value, "Path should be absolute");
	else
		*to = text;
}

static void take_text(const struct take *take, const json_t *value, struct text *to)
{
	if (check_string(take, value))
		*to = (struct text){ json_string_value(value), json_string_length(value) };
}

static bool in_range(const struct take *take, const json_t *input, double value)
{
	const struct field *f = take->field;
	if (f->flags & ABOVE && value <= f->min)
		refuse(take, "greater_than", input, "Input should be greater than %.15g", f->min);
	else if (f->flags & MIN && value < f->min)
		refuse(take, "greater_than_equal", input,
		       "Input should be greater than or equal to %.15g", f->min);
	else if (f->flags & MAX && value > f->max)
		refuse(take, "less_than_equal", input,
		       "Input should be less than or equal to %.15g", f->max);
	else
		return true;
	return false;
}

/* A copy of a string that is to be a number: without the white space around it and the underscores
 * between its digits. NULL when there is a NUL, or an underscore elsewhere. */
static char *number_text(struct arena *arena, const json_t *value)
{
	const char *from = json_string_value(value);
	size_t len = json_string_length(value);
	if (strlen(from) != len)
		return NULL;
	for (; len && isspace((unsigned char)*from); len--)
		from++;
	while (len && isspace((unsigned char)from[len - 1]))
		len--;
	char *text = arena_alloc(arena, len + 1), *to = text;
	for (size_t i = 0; i < len; i++) {
		if (from[i] != '_')
			*to++ = from[i];
		else if (!i || !isdigit((unsigned char)from[i - 1]) ||
			 !isdigit((unsigned char)from[i + 1]))
			return NULL;
	}
	return text;
}

static void take_num(const struct take *take, const json_t *value, double *to)
{
	double number = 0;
	if (json_is_number(value)) {
		number = json_number_value(value);
	} else if (json_is_boolean(value)) {
		number = json_is_true(value);
	} else if (json_is_string(value)) {
		char *text = number_text(take->arena, value), *end = text;
		if (text && !strpbrk(text, "xX("))
			number = strtod(text, &end);
		if (end == text || *end) {
			refuse(take, "float_parsing", value,
			       "Input should be a valid number, unable to parse string as a number");
			return;
		}
	} else {
		refuse(take, "float_type", value, "Input should be a valid number");
		return;
	}
	if (!isfinite(number))
		refuse(take, "finite_number", value, "Input should be a finite number");
	else if (in_range(take, value, number))
		*to = number;
}

/* Digits, also with ".0" behind them. ERANGE when they are too many, EINVAL when it is not so. */
static int text_int(struct arena *arena, const json_t *value, int64_t *ret)
{
	char *text = number_text(arena, value);
	if (!text)
		return EINVAL;
	size_t sign = *text == '-' || *text == '+';
	size_t digits = strspn(text + sign, "0123456789");
	char *point = text + sign + digits;
	if (!digits ||
	    (*point && (*point != '.' || !point[1] || point[1 + strspn(point + 1, "0")])))
		return EINVAL;
	errno = 0;
	*ret = strtoll(text, NULL, 10);
	return errno;
}

/* A number without a fraction that 64 bits can hold. */
static bool is_whole(const json_t *value)
{
	double number = json_number_value(value);
	return json_is_integer(value) ||
	       (json_is_real(value) && number == floor(number) && fabs(number) < 0x1p63);
}

static void take_size(const struct take *take, const json_t *value, int64_t *to)
{
	const char *text = json_string_value(value);
	int64_t size = 0;
	bool good = json_is_number(value) && is_whole(value);
	if (good)
		size = (int64_t)json_number_value(value);
	if (json_is_integer(value))
		size = json_integer_value(value);
	else if (text && strlen(text) == json_string_length(value))
		good = size_parse(text, &size) == 0;
	if (!good || size == INT_ABSENT)
		refuse(take, "size_parsing", value, "Input should be a size: " SIZE_SYNTAX);
	else if (in_range(take, value, (double)size))
		*to = size;
}

static void take_int(const struct take *take, const json_t *value, int64_t *to)
{
	int64_t integer = 0;
	int wrong = 0;
	if (json_is_integer(value)) {
		integer = json_integer_value(value);
	} else if (json_is_boolean(value)) {
		integer = json_is_true(value);
	} else if (json_is_real(value)) {
		double number = json_real_value(value);
		wrong = fabs(number) >= 0x1p63 ? ERANGE : is_whole(value) ? 0 : EDOM;
		integer = wrong ? 0 : (int64_t)number;
	} else if (json_is_string(value)) {
		wrong = text_int(take->arena, value, &integer);
	} else {
		refuse(take, "int_type", value, "Input should be a valid integer");
		return;
	}
	if (wrong == EINVAL)
		refuse(take, "int_parsing", value,
		       "Input should be a valid integer, unable to parse string as an integer");
	else if (wrong == EDOM)
		refuse(take, "int_from_float", value,
		       "Input should be a valid integer, got a number with a fractional part");
	else if (wrong || integer == INT_ABSENT)
		refuse(take, "int_parsing_size", value,
		       "Unable to parse input string as an integer, exceeded maximum size");
	else if (in_range(take, value, (double)integer))
		*to = integer;
}

/* Whether a value is this string; one with NUL never is. */
static bool is_text(const json_t *value, const char *text)
{
	return json_is_string(value) && json_string_length(value) == strlen(text) &&
	       !strcmp(json_string_value(value), text);
}

/* 1 or 0; -1 for no boolean. */
static int bool_value(const json_t *value)
{
	static const char *const words[][2] = { { "0", "1" },    { "false", "true" },
						{ "no", "yes" }, { "off", "on" },
						{ "f", "t" },    { "n", "y" } };
	if (json_is_boolean(value))
		return json_is_true(value);
	if (json_is_number(value)) {
		double number = json_number_value(value);
		return number == 0 ? 0 : number == 1 ? 1 : -1;
	}
	if (json_is_string(value) && json_string_length(value) == strlen(json_string_value(value)))
		for (int i = 0; i < 2 * (int)COUNT(words); i++)
			if (!strcasecmp(json_string_value(value), words[i / 2][i % 2]))
				return i % 2;
	return -1;
}

static bool take_bool(const struct take *take, const json_t *value, bool *to)
{
	int found = bool_value(value);
	if (found >= 0)
		*to = found;
	else if (json_is_string(value) || is_whole(value))
		refuse(take, "bool_parsing", value,
		       "Input should be a valid boolean, unable to interpret input");
	else
		refuse(take, "bool_type", value, "Input should be a valid boolean");
	return found >= 0;
}

/* "'a', 'b' or 'c'" */
static const char *choices_text(const char *const *choices, char *text, size_t room)
{
	size_t len = 0;
	for (size_t i = 0; choices[i] && len < room; i++)
		len += (size_t)snprintf(text + len, room - len, "%s'%s'",
					!i               ? ""
					: choices[i + 1] ? ", "
							 : " or ",
					choices[i]);
	return text;
}

static void take_enum(const struct take *take, const json_t *value, const char **to)
{
	const char *const *choices = take->field->choices;
	for (size_t i = 0; choices[i]; i++)
		if (is_text(value, choices[i])) {
			*to = choices[i];
			return;
		}
	char text[400];
	refuse(take, "enum", value, "Input should be %s", choices_text(choices, text, sizeof text));
}

static void take_value(const struct take *take, const json_t *value, void *to);

static void refuse_struct(const struct take *take, const json_t *value)
{
	refuse(take, "model_attributes_type", value,
	       "Input should be a valid dictionary or object to extract fields from");
}

static const void *take_struct(const struct take *take, const json_t *value,
			       const struct schema *schema, void *to)
{
	if (!json_is_object(value)) {
		refuse_struct(take, value);
		return NULL;
	}
	void *room = to ? to : arena_alloc(take->arena, schema->size);
	desc_decode(schema, 0, value, take->loc, take->arena, room, take->problems);
	return room;
}

size_t desc_item_size(const struct field *field)
{
	switch (field->item) {
	case T_INT:
		return sizeof(int64_t);
	case T_NUM:
		return sizeof(double);
	case T_BOOL:
		return sizeof(bool);
	case T_TRI:
		return sizeof(enum tri);
	case T_TEXT:
		return sizeof(struct text);
	case T_OBJ:
	case T_UNION:
		return field->of->size;
	default:
		return sizeof(void *);
	}
}

static void take_list(const struct take *take, const json_t *value, struct list *to)
{
	const struct field *f = take->field;
	if (!json_is_array(value)) {
		refuse(take, "list_type", value, "Input should be a valid list");
		return;
	}
	size_t count = json_array_size(value), size = desc_item_size(f);
	if ((f->max_len && count > f->max_len) || count < f->min_len) {
		bool few = count < f->min_len;
		size_t limit = few ? f->min_len : f->max_len;
		refuse(take, few ? "too_short" : "too_long", value,
		       "List should have at %s %zu item%s after validation, not %zu",
		       few ? "least" : "most", limit, limit == 1 ? "" : "s", count);
		return;
	}
	char *items = arena_alloc(take->arena, count * size);
	struct field item = { .name = f->name,
			      .type = f->choices ? T_ENUM : f->item,
			      .choices = f->choices,
			      .of = f->of };
	for (size_t i = 0; i < count; i++) {
		struct loc loc = { .up = take->loc, .index = i };
		struct take one = { &item, &loc, take->arena, take->problems };
		if (f->item == T_OBJ)
			take_struct(&one, json_array_get(value, i), f->of, items + i * size);
		else
			take_value(&one, json_array_get(value, i), items + i * size);
	}
	*to = (struct list){ count, items };
}

static void take_map(const struct take *take, const json_t *value, struct list *to)
{
	if (!json_is_object(value)) {
		refuse(take, "dict_type", value, "Input should be a valid dictionary");
		return;
	}
	struct pair *pairs = arena_alloc(take->arena, json_object_size(value) * sizeof *pairs);
	struct field item = { .name = take->field->name, .type = T_STR };
	const char *key;
	json_t *one;
	size_t count = 0;
	json_object_foreach((json_t *)value, key, one) {
		struct loc loc = { .up = take->loc, .key = key };
		struct take inner = { &item, &loc, take->arena, take->problems };
		pairs[count].name = key;
		take_str(&inner, one, &pairs[count++].value);
	}
	*to = (struct list){ count, pairs };
}

static void bad_tag(const struct take *take, const json_t *value, const struct schema *schema,
		    const json_t *tag)
{
	char tags[400] = "";
	for (size_t i = 0, len = 0; i < schema->variant_count && len < sizeof tags; i++)
		len += (size_t)snprintf(tags + len, sizeof tags - len, "%s'%s'", i ? ", " : "",
					schema->variants[i].tag);
	struct jw text;
	jw_init(&text, INPUT_MAX);
	jw_json(&text, tag);
	refuse(take, "union_tag_invalid", value,
	       "Input tag '%.60s' found using '%s' does not match any of the expected tags: %s",
	       json_is_string(tag) ? json_string_value(tag) : text.out.data, schema->tag, tags);
	jw_done(&text);
}

static void take_union(const struct take *take, const json_t *value, const struct schema *schema,
		       struct tagged *to)
{
	const json_t *tag = json_object_get(value, schema->tag);
	if (!json_is_object(value)) {
		refuse_struct(take, value);
		return;
	}
	if (!tag) {
		refuse(take, "union_tag_not_found", value,
		       "Unable to extract tag using discriminator '%s'", schema->tag);
		return;
	}
	for (size_t i = 0; i < schema->variant_count; i++) {
		const struct variant *v = &schema->variants[i];
		if (!is_text(tag, v->tag))
			continue;
		struct loc loc = { .up = take->loc, .key = v->tag };
		struct take inner = { take->field, &loc, take->arena, take->problems };
		to->tag = v->tag;
		to->value = take_struct(&inner, value, v->of, NULL);
		return;
	}
	bad_tag(take, value, schema, tag);
}

/* Whether JSON has the value as what it is to be; elsewhere "5" is a number too, as in a query. */
static bool is_exact(enum desc_type type, const json_t *value)
{
	return type == T_INT   ? json_is_integer(value)
	       : type == T_NUM ? json_is_number(value)
			       : json_is_boolean(value);
}

static void take_value(const struct take *take, const json_t *value, void *to)
{
	bool flag;
	if (take->field->flags & EXACT && !is_exact(take->field->type, value))
		value = json_null(); /* which none of them is */
	switch (take->field->type) {
	case T_STR:
		take_str(take, value, to);
		break;
	case T_TEXT:
		take_text(take, value, to);
		break;
	case T_INT:
		(take->field->flags & SIZED ? take_size : take_int)(take, value, to);
		break;
	case T_NUM:
		take_num(take, value, to);
		break;
	case T_BOOL:
		take_bool(take, value, to);
		break;
	case T_TRI:
		if (take_bool(take, value, &flag))
			*(enum tri *)to = flag ? YES : NO;
		break;
	case T_ENUM:
		take_enum(take, value, to);
		break;
	case T_JSON:
		*(const json_t **)to = value;
		break;
	case T_OBJ:
		*(const void **)to = take_struct(take, value, take->field->of, NULL);
		break;
	case T_LIST:
		take_list(take, value, to);
		break;
	case T_MAP:
		take_map(take, value, to);
		break;
	case T_UNION:
		take_union(take, value, take->field->of, to);
		break;
	case T_STREAM: /* in answers only */
	case T_FILE:   /* put there by whoever read the form */
		refuse(take, "value_error", NULL, "Expected a file, sent as multipart/form-data");
		break;
	}
}

static void decref(void *json)
{
	json_decref(json);
}

static void set_default(const struct take *take, void *to)
{
	const struct field *f = take->field;
	const char *def = f->def;
	json_t *list;
	switch (f->type) {
	case T_STR:
	case T_ENUM:
		*(const char **)to = def;
		break;
	case T_TEXT:
		*(struct text *)to = (struct text){ def, def ? strlen(def) : 0 };
		break;
	case T_INT:
		*(int64_t *)to = def ? strtoll(def, NULL, 10) : INT_ABSENT;
		break;
	case T_NUM:
		*(double *)to = def ? strtod(def, NULL) : NAN;
		break;
	case T_BOOL:
		*(bool *)to = def && !strcmp(def, "true");
		break;
	case T_TRI:
		*(enum tri *)to = !def ? UNSET : !strcmp(def, "true") ? YES : NO;
		break;
	case T_LIST:
		*(struct list *)to = (struct list){ 0 };
		if (!def || !strcmp(def, "[]"))
			break;
		list = json_loads(def, 0, NULL);
		arena_defer(take->arena, decref, list); /* its strings are the list's */
		take_list(take, list, to);
		break;
	default: /* pointers start as zeroes */
		break;
	}
}

static const json_t *find_value(const json_t *from, const struct field *f)
{
	const json_t *value = json_object_get(from, f->name);
	for (const char *at = f->alias; !value && at && *at; at += *at == ',') {
		size_t len = strcspn(at, ",");
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)len, at);
		value = json_object_get(from, name);
		at += len;
	}
	return value;
}

void desc_decode(const struct schema *schema, unsigned place, const json_t *from,
		 const struct loc *loc, struct arena *arena, void *to, struct problems *problems)
{
	if (schema->variants && !place) {
		struct field field = { .name = schema->name, .type = T_UNION };
		struct take take = { &field, loc, arena, problems };
		take_union(&take, from, schema, to);
		return;
	}
	if (schema->strict && !place)
		desc_names(schema, from, loc, problems);
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		if ((f->flags & (QUERY | PATH | HEADER)) != place)
			continue;
		void *at = (char *)to + f->at;
		struct loc here = { .up = loc, .key = f->name };
		struct take take = { f, &here, arena, problems };
		if (f->type == T_FILE && *(void **)at)
			continue;
		const json_t *value = find_value(from, f);
		bool given = value && !(json_is_null(value) && !(f->flags & REQUIRED));
		if (!given || f->type != T_LIST) /* which what is given replaces as a whole */
			set_default(&take, at);
		if (given)
			take_value(&take, value, at);
		else if (f->flags & REQUIRED)
			refuse(&take, "missing", from, "Field required");
	}
}
