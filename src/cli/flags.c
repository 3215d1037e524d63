#include "cli/flags.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/size.h"

enum { NOT_BODY = QUERY | PATH | HEADER };

static bool is_flag(const char *arg, size_t len, const char *name)
{
	if (!name || strlen(name) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (arg[i] != name[i] && !(arg[i] == '-' && name[i] == '_'))
			return false;
	return true;
}

/* *ret_owner is the object whose field it is; NULL: the request itself. */
static const struct field *find(const struct schema *schema, const char *arg, size_t len,
				const struct field **ret_owner)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		if (f->flags & NOT_BODY)
			continue;
		if (f->type == T_OBJ) {
			const struct field *inner = find(f->of, arg, len, ret_owner);
			if (inner) {
				*ret_owner = f;
				return inner;
			}
		} else if (is_flag(arg, len, f->flag) || is_flag(arg, len, f->name)) {
			*ret_owner = NULL;
			return f;
		}
	}
	return NULL;
}

static json_t *seconds(const char *text)
{
	int64_t ms;
	if (opt_duration(text, &ms) < 0)
		return NULL;
	return ms % 1000 ? json_real((double)ms / 1000) : json_integer(ms / 1000);
}

static json_t *number(const char *text, unsigned flags)
{
	char *end;
	int64_t size;
	if (flags & TIMED)
		return seconds(text);
	if (flags & SIZED)
		return size_parse(text, &size) < 0 ? NULL : json_integer(size);
	errno = 0;
	double value = strtod(text, &end);
	if (end == text || errno || *end || fabs(value) > 0x1p53)
		return NULL;
	return value == (double)(json_int_t)value ? json_integer((json_int_t)value)
						  : json_real(value);
}

/* SOURCE:TARGET[:rw] */
static json_t *mount(const char *text)
{
	const char *colon = strchr(text, ':'), *more = colon ? strchr(colon + 1, ':') : NULL;
	if (!colon || (more && strcmp(more, ":rw") != 0 && strcmp(more, ":ro") != 0))
		return NULL;
	return json_pack("{ss%ss%sb}", "source", text, (size_t)(colon - text), "target", colon + 1,
			 more ? (size_t)(more - colon - 1) : strlen(colon + 1), "writable",
			 more && !strcmp(more, ":rw"));
}

static json_t *from_json(const char *text)
{
	auto_free char *copy = xstrdup(text);
	return json_parse(copy, strlen(copy), NULL);
}

/* Directories of a box, for which the table has no other word than objects. */
static bool is_mounts(const struct field *f)
{
	return f->type == T_LIST && f->item == T_OBJ && !strcmp(f->name, "mounts");
}

static bool is_json(const struct field *f)
{
	enum desc_type type = f->type == T_LIST ? f->item : f->type;
	return !is_mounts(f) && (type == T_OBJ || type == T_UNION || type == T_JSON);
}

static json_t *list_item(const struct field *f, const char *text)
{
	if (is_mounts(f))
		return mount(text);
	if (is_json(f))
		return from_json(text);
	return f->item == T_INT || f->item == T_NUM ? number(text, 0) : json_string(text);
}

/* A list as JSON, where its items are no texts. */
static json_t *whole_list(const struct field *f, const char *text)
{
	bool texts = f->item == T_STR || f->item == T_ENUM;
	return texts || *text != '[' ? NULL : from_json(text);
}

static bool is_choice(const struct field *f, const char *text)
{
	size_t i = 0;
	while (f->choices[i] && strcmp(f->choices[i], text) != 0)
		i++;
	return f->choices[i];
}

int flags_set(const struct field *f, const char *text, json_t *to)
{
	json_t *value = NULL, *old = json_object_get(to, f->name);
	const char *equals = strchr(text, '=');
	switch (f->type) {
	case T_INT:
	case T_NUM:
		value = number(text, f->flags);
		break;
	case T_BOOL:
	case T_TRI:
		value = !strcmp(text, "true")    ? json_true()
			: !strcmp(text, "false") ? json_false()
						 : NULL;
		break;
	case T_MAP:
		if (!equals)
			return -1;
		value = old ? json_incref(old) : json_object();
		json_object_setn_new(value, text, (size_t)(equals - text), json_string(equals + 1));
		break;
	case T_LIST:
		if (f->choices && !is_choice(f, text))
			return -1;
		value = whole_list(f, text);
		if (value)
			break;
		value = old ? json_incref(old) : json_array();
		if (json_array_append_new(value, list_item(f, text)) < 0) {
			json_decref(value);
			return -1;
		}
		break;
	case T_OBJ:
	case T_UNION:
		value = *text == '{' ? from_json(text) : NULL;
		break;
	case T_JSON:
		value = from_json(text);
		value = value ? value : json_string(text);
		break;
	case T_ENUM:
		value = is_choice(f, text) ? json_string(text) : NULL;
		break;
	default:
		value = json_string(text);
	}
	return json_object_set_new(to, f->name, value);
}

void flags_name(const struct schema *schema, struct err *err)
{
	size_t len = strspn(err->msg, "abcdefghijklmnopqrstuvwxyz_.");
	const char *name = err->msg + len;
	const struct field *owner;
	while (name > err->msg && name[-1] != '.')
		name--;
	const struct field *f = find(schema, name, (size_t)(err->msg + len - name), &owner);
	if (!f || strncmp(err->msg + len, ": ", 2) != 0)
		return;
	auto_free char *flag = xstrdup(f->flag ? f->flag : f->name);
	auto_free char *rest = xstrdup(err->msg + len);
	for (char *c = flag; *c; c++)
		*c = *c == '_' ? '-' : *c;
	err_set(err, err->code, "--%s%s", flag, rest);
}

const char *flags_argument(const struct field *f)
{
	enum desc_type type = f->type == T_LIST ? f->item : f->type;
	return f->flags & SIZED                        ? " SIZE"
	       : f->flags & TIMED                      ? " DURATION"
	       : is_mounts(f)                          ? " SOURCE:TARGET[:rw]"
	       : is_json(f)                            ? " JSON"
	       : type == T_INT || type == T_NUM        ? " N"
	       : f->type == T_BOOL || f->type == T_TRI ? ""
	       : f->type == T_MAP                      ? " NAME=VALUE"
	       : f->type == T_FILE                     ? " FILE"
						       : " TEXT";
}

/* What a value must be, in words. */
int flags_refuse(const struct field *f, const char *flag, int len, const char *value,
		 struct err *err)
{
	auto_buf struct buf choices = BUF(256);
	bool quoted = f->example && *f->example == '"';
	if (!value)
		return err_set(err, ERR_INVALID, "--%.*s needs a value:%s (see --help)", len, flag,
			       flags_argument(f));
	for (size_t i = 0; f->choices && f->choices[i]; i++)
		buf_printf(&choices, "%s%s", i ? ", " : "", f->choices[i]);
	if (f->example)
		buf_printf(&choices, ", such as %.*s", (int)strcspn(f->example + quoted, "\""),
			   f->example + quoted);
	return err_set(err, ERR_INVALID, "--%.*s: '%s' is not %s%s", len, flag, value,
		       f->choices         ? "one of "
		       : f->flags & SIZED ? "a size: " SIZE_SYNTAX
		       : f->flags & TIMED ? "a duration: " OPT_DURATION_SYNTAX
		       : is_mounts(f)     ? "SOURCE:TARGET or SOURCE:TARGET:rw"
		       : is_json(f)       ? "JSON of its type"
		       : f->type == T_INT || f->type == T_NUM || f->type == T_LIST ? "a number"
		       : f->type == T_BOOL || f->type == T_TRI                     ? "true or false"
		       : f->type == T_MAP                                          ? "NAME=VALUE"
										   : "UTF-8",
		       choices.data ? choices.data : "");
}

int flags_parse(const struct schema *schema, int argc, char **argv, int *at, json_t *to,
		struct err *err)
{
	for (; *at < argc && !strncmp(argv[*at], "--", 2) && argv[*at][2]; ++*at) {
		const char *arg = argv[*at] + 2;
		size_t len = strcspn(arg, "=");
		const struct field *owner = NULL, *f = find(schema, arg, len, &owner);
		if (!f)
			return 0;
		const char *value = arg[len] ? arg + len + 1 : NULL;
		if (!value && (f->type == T_BOOL || f->type == T_TRI))
			value = "true";
		else if (!value && *at + 1 < argc)
			value = argv[++*at];
		json_t *object = to;
		if (owner && !(object = json_object_get(to, owner->name))) {
			object = json_object();
			json_object_set_new(to, owner->name, object);
		}
		if (!value || flags_set(f, value, object) < 0)
			return flags_refuse(f, arg, (int)len, value, err);
	}
	return 0;
}

void flags_print(const struct field *f, bool *explained)
{
	char flag[64];
	size_t n = 0;
	for (const char *c = f->flag ? f->flag : f->name; *c && n + 1 < sizeof flag; c++)
		flag[n++] = *c == '_' ? '-' : *c;
	flag[n] = 0;
	printf("  --%s%s\n      %s", flag, flags_argument(f), f->help);
	for (size_t c = 0; f->choices && f->choices[c]; c++)
		printf("%s%s", c ? ", " : " One of ", f->choices[c]);
	printf("%s", f->choices ? "." : "");
	printf("%s%s%s", f->def ? " Default " : "", f->def ? f->def : "", f->def ? "." : "");
	bool explain = f->flags & TIMED && !*explained;
	printf("%s\n", explain ? " A DURATION is " OPT_DURATION_SYNTAX "." : "");
	*explained |= explain;
}

static void print_flags(const struct schema *schema, bool *explained)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		if (f->flags & NOT_BODY)
			continue;
		if (f->type == T_OBJ)
			print_flags(f->of, explained);
		else
			flags_print(f, explained);
	}
}

void flags_help(const struct schema *schema)
{
	bool explained = false;
	print_flags(schema, &explained);
}
