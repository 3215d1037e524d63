/* The JSON Schema side of desc.h. */
#include <stdio.h>
#include <string.h>

#include "base/desc.h"
#include "base/json.h"

void desc_schema_ref(const struct schema *schema, struct jw *jw)
{
	char ref[160];
	snprintf(ref, sizeof ref, "#/components/schemas/%s", schema->name);
	jw_open(jw, '{');
	jw_key_str(jw, "$ref", ref);
	jw_close(jw, '}');
}

static void put_choices(const char *const *choices, struct jw *jw)
{
	jw_key(jw, "enum");
	jw_open(jw, '[');
	for (; *choices; choices++)
		jw_str(jw, *choices);
	jw_close(jw, ']');
}

static void put_limits(const struct field *f, struct jw *jw)
{
	const char *least = f->type == T_LIST ? "minItems" : "minLength";
	const char *most = f->type == T_LIST ? "maxItems" : "maxLength";
	if (f->flags & (MIN | ABOVE)) {
		jw_key(jw, f->flags & ABOVE ? "exclusiveMinimum" : "minimum");
		jw_num(jw, f->min);
	}
	if (f->flags & MAX) {
		jw_key(jw, "maximum");
		jw_num(jw, f->max);
	}
	if (f->min_len)
		jw_key_int(jw, least, (int64_t)f->min_len);
	if (f->max_len)
		jw_key_int(jw, most, (int64_t)f->max_len);
	if (f->flags & ABSPATH)
		jw_key_str(jw, "pattern", "^(/|$)");
}

/* A number of bytes, or a size as people write it. */
static void put_size(const struct field *f, struct jw *jw)
{
	jw_key(jw, "anyOf");
	jw_open(jw, '[');
	jw_open(jw, '{');
	jw_key_str(jw, "type", "integer");
	put_limits(f, jw);
	jw_close(jw, '}');
	jw_open(jw, '{');
	jw_key_str(jw, "type", "string");
	jw_key_str(jw, "pattern", "^[0-9]*\\.?[0-9]+ ?([KMGTkmgt][Ii]?)?[Bb]?$");
	jw_close(jw, '}');
	jw_close(jw, ']');
}

/* The members of the schema of a value, without the object around them. */
static void put_type(const struct field *f, struct jw *jw)
{
	static const char *const names[] = {
		[T_STR] = "string",  [T_TEXT] = "string",  [T_INT] = "integer",
		[T_NUM] = "number",  [T_BOOL] = "boolean", [T_TRI] = "boolean",
		[T_ENUM] = "string", [T_LIST] = "array",   [T_MAP] = "object",
		[T_FILE] = "string", [T_UNION] = NULL,     [T_STREAM] = "string",
	};
	if (f->type == T_OBJ || f->type == T_UNION) {
		char ref[160];
		snprintf(ref, sizeof ref, "#/components/schemas/%s", f->of->name);
		jw_key_str(jw, "$ref", ref);
		return;
	}
	if (f->type == T_JSON)
		return;
	if (f->flags & SIZED) {
		put_size(f, jw);
		return;
	}
	jw_key_str(jw, "type", names[f->type]);
	if (f->type == T_ENUM)
		put_choices(f->choices, jw);
	if (f->type == T_FILE)
		jw_key_str(jw, "contentMediaType", "application/octet-stream");
	if (f->type == T_TEXT && f->flags & BASE64)
		jw_key_str(jw, "contentEncoding", "base64");
	put_limits(f, jw);
	if (f->type == T_LIST) {
		struct field item = { .type = f->item, .of = f->of, .choices = f->choices };
		if (f->choices)
			item.type = T_ENUM;
		jw_key(jw, "items");
		jw_open(jw, '{');
		put_type(&item, jw);
		jw_close(jw, '}');
	}
	if (f->type == T_MAP) {
		struct field item = { .type = f->item, .of = f->of };
		jw_key(jw, "additionalProperties");
		jw_open(jw, '{');
		put_type(&item, jw);
		jw_close(jw, '}');
	}
}

static void put_default(const struct field *f, struct jw *jw)
{
	if (!f->def)
		return;
	jw_key(jw, "default");
	if (f->type == T_STR || f->type == T_ENUM || f->type == T_TEXT)
		jw_str(jw, f->def);
	else
		jw_raw(jw, f->def, strlen(f->def));
}

void desc_field_schema(const struct field *f, bool answer, struct jw *jw)
{
	bool nullable = answer ? f->flags & NULLABLE : !(f->flags & (REQUIRED | PATH)) && !f->def;
	jw_open(jw, '{');
	if ((nullable || f->other) && f->type != T_JSON) {
		jw_key(jw, "anyOf");
		jw_open(jw, '[');
		jw_open(jw, '{');
		put_type(f, jw);
		jw_close(jw, '}');
		if (f->other)
			desc_schema_ref(f->other, jw);
		jw_open(jw, '{');
		jw_key_str(jw, "type", "null");
		jw_close(jw, '}');
		jw_close(jw, ']');
	} else {
		put_type(f, jw);
	}
	if (!answer)
		put_default(f, jw);
	if (f->example && !answer) {
		jw_key(jw, "examples");
		jw_open(jw, '[');
		jw_raw(jw, f->example, strlen(f->example));
		jw_close(jw, ']');
	}
	if (f->help)
		jw_key_str(jw, "description", f->help);
	jw_close(jw, '}');
}

static void put_union(const struct schema *schema, struct jw *jw)
{
	jw_key(jw, schema->outside ? "anyOf" : "oneOf"); /* two may look the same */
	jw_open(jw, '[');
	for (size_t i = 0; i < schema->variant_count; i++)
		desc_schema_ref(schema->variants[i].of, jw);
	jw_close(jw, ']');
	if (schema->outside)
		return;
	jw_key(jw, "discriminator");
	jw_open(jw, '{');
	jw_key_str(jw, "propertyName", schema->tag);
	jw_key(jw, "mapping");
	jw_open(jw, '{');
	for (size_t i = 0; i < schema->variant_count; i++) {
		char ref[160];
		snprintf(ref, sizeof ref, "#/components/schemas/%s", schema->variants[i].of->name);
		jw_key_str(jw, schema->variants[i].tag, ref);
	}
	jw_close(jw, '}');
	jw_close(jw, '}');
}

enum { TAGS_MAX = 64 }; /* of one variant */

static bool has_field(const struct schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->count; i++)
		if (!strcmp(schema->fields[i].name, name))
			return true;
	return false;
}

/* The member that tells variants of a union apart, as a property of one of them: its tag, or its tags. */
static void put_tag(const struct schema *schema, const struct schema *one_of, struct jw *jw)
{
	const char *tags[TAGS_MAX + 1] = { NULL };
	size_t count = 0;
	for (size_t i = 0; i < one_of->variant_count && count < TAGS_MAX; i++)
		if (one_of->variants[i].of == schema)
			tags[count++] = one_of->variants[i].tag;
	jw_key(jw, one_of->tag);
	jw_open(jw, '{');
	jw_key_str(jw, "type", "string");
	if (count == 1) {
		jw_key_str(jw, "const", tags[0]);
		jw_key_str(jw, "default", tags[0]);
	} else {
		put_choices(tags, jw);
	}
	jw_close(jw, '}');
}

static void put_fields(const struct schema *schema, const struct schema *one_of, unsigned place,
		       bool answer, struct jw *jw)
{
	bool any = false;
	jw_key_str(jw, "type", "object");
	jw_key(jw, "properties");
	jw_open(jw, '{');
	if (one_of && !has_field(schema, one_of->tag))
		put_tag(schema, one_of, jw);
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		if (f->flags & HIDDEN || (f->flags & (QUERY | PATH | HEADER)) != place)
			continue;
		any = any || (answer && !(f->flags & OMIT)) || f->flags & REQUIRED;
		jw_key(jw, f->name);
		desc_field_schema(f, answer, jw);
	}
	jw_close(jw, '}');
	if (schema->strict && !place && !answer)
		jw_key_bool(jw, "additionalProperties", false);
	if (!any)
		return;
	jw_key(jw, "required");
	jw_open(jw, '[');
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		if (!(f->flags & HIDDEN) && (f->flags & (QUERY | PATH | HEADER)) == place &&
		    ((answer && !(f->flags & OMIT)) || f->flags & REQUIRED))
			jw_str(jw, f->name);
	}
	jw_close(jw, ']');
}

/* one_of: the tagged union of which it is a variant; NULL: none. */
static void put_schema(const struct schema *schema, const struct schema *one_of, unsigned place,
		       bool answer, struct jw *jw)
{
	jw_open(jw, '{');
	if (schema->variants)
		put_union(schema, jw);
	else
		put_fields(schema, one_of, place, answer, jw);
	jw_key_str(jw, "title", schema->name);
	if (schema->help)
		jw_key_str(jw, "description", schema->help);
	jw_close(jw, '}');
}

void desc_schema(const struct schema *schema, unsigned place, bool answer, struct jw *jw)
{
	put_schema(schema, NULL, place, answer, jw);
}

static bool is_variant(const struct schema *schema, const struct schema *one_of)
{
	for (size_t i = 0; i < one_of->variant_count && !one_of->outside; i++)
		if (one_of->variants[i].of == schema)
			return true;
	return false;
}

void desc_schema_among(const struct schema *schema, const struct schema *const *all, size_t count,
		       bool answer, struct jw *jw)
{
	size_t i = 0;
	while (i < count && !is_variant(schema, all[i]))
		i++;
	put_schema(schema, i < count ? all[i] : NULL, 0, answer, jw);
}

void desc_walk(const struct schema *schema, desc_visit *fn, void *arg)
{
	if (!fn(schema, arg))
		return;
	for (size_t i = 0; i < schema->count; i++)
		if (schema->fields[i].of)
			desc_walk(schema->fields[i].of, fn, arg);
	for (size_t i = 0; i < schema->variant_count; i++)
		desc_walk(schema->variants[i].of, fn, arg);
}
