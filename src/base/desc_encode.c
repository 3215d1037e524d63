#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/desc.h"
#include "base/json.h"
#include "base/utf8.h"

enum { STREAM_PIECE = 32768 };

static void encode_text(const struct field *f, const struct text *text, struct jw *jw)
{
	if (!text->data) {
		jw_null(jw);
	} else if (f->flags & BASE64) {
		auto_buf struct buf coded = BUF(text->len / 3 * 4 + 8);
		base64_encode(&coded, text->data, text->len);
		jw_text(jw, coded.data ? coded.data : "", coded.len);
	} else {
		jw_text(jw, text->data, text->len);
	}
}

static void encode_part(const struct stream *stream, int64_t at, int64_t end, struct jw *jw)
{
	auto_free char *piece = xmalloc(STREAM_PIECE);
	while (at < end && !jw_failed(jw)) {
		size_t want = end - at < STREAM_PIECE ? (size_t)(end - at) : STREAM_PIECE;
		size_t got = 0, n;
		while (got < want &&
		       (n = stream->read(stream->arg, at + (int64_t)got, piece + got, want - got)))
			got += n;
		if (!got)
			return;
		/* A character that is cut off here comes whole with the next piece. */
		if (got == want && at + (int64_t)got < end)
			got -= utf8_partial(piece, got);
		jw_part(jw, piece, got);
		at += (int64_t)got;
	}
}

static void encode_stream(const struct stream *stream, struct jw *jw)
{
	if (!stream->read) {
		jw_null(jw);
		return;
	}
	jw_part_open(jw);
	if (stream->resume) {
		encode_part(stream, stream->start, stream->cut, jw);
		jw_part(jw, stream->middle, strlen(stream->middle));
		encode_part(stream, stream->resume, stream->end, jw);
	} else {
		encode_part(stream, stream->start, stream->end, jw);
	}
	jw_part_close(jw);
}

static void encode_list(const struct field *f, const struct list *list, struct jw *jw)
{
	struct field item = { .type = f->item, .of = f->of };
	size_t size = desc_item_size(f);
	if (!list->items && f->flags & NULLABLE) {
		jw_null(jw);
		return;
	}
	jw_open(jw, '[');
	for (size_t i = 0; list->items && i < list->count; i++) {
		const char *at = (const char *)list->items + i * size;
		if (f->item == T_OBJ)
			desc_encode(f->of, at, jw);
		else
			desc_encode_value(&item, at, jw);
	}
	jw_close(jw, ']');
}

static void encode_each(const struct field *f, const struct each *each, struct jw *jw)
{
	if (!each->write) {
		jw_null(jw);
		return;
	}
	jw_open(jw, '[');
	each->write(each->arg, f->of, jw);
	jw_close(jw, ']');
}

void desc_each_json(void *array, const struct schema *of, struct jw *jw)
{
	size_t i;
	const json_t *item;
	(void)of;
	json_array_foreach((json_t *)array, i, item)
		jw_json(jw, item);
}

static void encode_map(const struct field *f, const struct list *map, struct jw *jw)
{
	const struct pair *pairs = map->items;
	const struct named *structs = map->items;
	jw_open(jw, '{');
	for (size_t i = 0; i < map->count; i++) {
		if (f->item == T_OBJ) {
			jw_key(jw, structs[i].name);
			desc_encode(f->of, structs[i].value, jw);
		} else {
			jw_key_str(jw, pairs[i].name, pairs[i].value);
		}
	}
	jw_close(jw, '}');
}

static void encode_union(const struct schema *schema, const struct tagged *value, struct jw *jw)
{
	for (size_t i = 0; value->tag && i < schema->variant_count; i++)
		if (!strcmp(schema->variants[i].tag, value->tag)) {
			desc_encode(schema->variants[i].of, value->value, jw);
			return;
		}
	jw_null(jw);
}

void desc_encode_value(const struct field *f, const void *value, struct jw *jw)
{
	switch (f->type) {
	case T_STR:
	case T_ENUM:
		jw_str(jw, *(const char *const *)value);
		break;
	case T_TEXT:
		encode_text(f, value, jw);
		break;
	case T_INT:
		if (*(const int64_t *)value == INT_ABSENT)
			jw_null(jw);
		else
			jw_int(jw, *(const int64_t *)value);
		break;
	case T_NUM:
		jw_num(jw, *(const double *)value);
		break;
	case T_BOOL:
		jw_bool(jw, *(const bool *)value);
		break;
	case T_TRI:
		if (*(const enum tri *)value == UNSET)
			jw_null(jw);
		else
			jw_bool(jw, *(const enum tri *)value == YES);
		break;
	case T_JSON:
		jw_json(jw, *(const json_t *const *)value);
		break;
	case T_OBJ:
		if (*(const void *const *)value)
			desc_encode(f->of, *(const void *const *)value, jw);
		else
			jw_null(jw);
		break;
	case T_LIST:
		if (f->flags & PIECEWISE)
			encode_each(f, value, jw);
		else
			encode_list(f, value, jw);
		break;
	case T_MAP:
		encode_map(f, value, jw);
		break;
	case T_UNION:
		encode_union(f->of, value, jw);
		break;
	case T_STREAM:
		encode_stream(value, jw);
		break;
	case T_FILE:
		jw_null(jw);
		break;
	}
}

/* Of an integer, a number or what is a pointer. */
static bool is_absent(enum desc_type type, const void *value)
{
	return type == T_INT   ? *(const int64_t *)value == INT_ABSENT
	       : type == T_NUM ? isnan(*(const double *)value)
			       : !*(const void *const *)value;
}

static void encode_fields(const struct schema *schema, const void *from, struct jw *jw)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		const void *value = (const char *)from + f->at;
		if (f->flags & OMIT && is_absent(f->type, value))
			continue;
		jw_key(jw, f->name);
		desc_encode_value(f, value, jw);
	}
}

void desc_encode(const struct schema *schema, const void *from, struct jw *jw)
{
	if (schema->variants) {
		encode_union(schema, from, jw);
		return;
	}
	jw_open(jw, '{');
	encode_fields(schema, from, jw);
	jw_close(jw, '}');
}

int desc_encode_variant(const struct schema *schema, const char *tag, const void *from,
			struct jw *jw)
{
	size_t i = 0;
	while (i < schema->variant_count && strcmp(schema->variants[i].tag, tag) != 0)
		i++;
	if (i == schema->variant_count)
		return -1;
	jw_open(jw, '{');
	if (!schema->outside)
		jw_key_str(jw, schema->tag, tag);
	encode_fields(schema->variants[i].of, from, jw);
	jw_close(jw, '}');
	return 0;
}
