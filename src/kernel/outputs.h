/* outputs.h - what an execution gave, folded from the kernel's messages into nbformat's outputs.
 *
 * Text of one stream that follows text of the same is one output; a carriage return begins its line
 * again, as on a screen. Of more text than the limit the middle is left out. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct jw;
struct outputs_item;
struct schema;

enum {
	OUTPUTS_ITEMS_MAX = 10000,   /* more outputs than that are left out */
	OUTPUTS_DATA_MAX = 32 << 20, /* bytes of pictures and the like in all; likewise */
};

struct outputs {
	struct outputs_item *items;
	size_t count, room, first_tail;
	size_t text_max, head, tail, data; /* bytes kept, and the limit of text */
	size_t dropped_text, dropped_items;
	bool clear_later; /* with the next output */
};

void outputs_init(struct outputs *outputs, size_t text_max);
void outputs_done(struct outputs *outputs);

/* Takes the content of a message; those that are no output are ignored. */
void outputs_add(struct outputs *outputs, const char *type, const json_t *content);

/* Takes text of a stream, any bytes. */
void outputs_stream(struct outputs *outputs, const char *name, const char *data, size_t len);

/* One message as an output, without folding: a new object, or NULL where it is none (updates and
 * clear_output change others). */
json_t *outputs_shape(const char *type, const json_t *content);

/* All of them, as items of a JSON array; and only the results and displays. For struct each, with the
 * outputs as its arg. */
void outputs_write(void *arg, const struct schema *of, struct jw *jw);
void outputs_write_results(void *arg, const struct schema *of, struct jw *jw);

/* All the text of "stdout" or "stderr"; the latest error, borrowed, or NULL. */
void outputs_text(const struct outputs *outputs, const char *name, struct buf *to);
const json_t *outputs_error(const struct outputs *outputs);
