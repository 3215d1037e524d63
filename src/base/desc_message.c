#include "base/arena.h"
#include "base/desc.h"
#include "base/json.h"

static void decref(void *json)
{
	json_decref(json);
}

int desc_message(const struct schema *schema, const char *text, size_t len, struct arena *arena,
		 void *to)
{
	struct problems ignored = { 0 };
	json_t *from = json_parse(arena_strndup(arena, text, len), len, NULL);
	arena_defer(arena, decref, from);
	if (!json_is_object(from) ||
	    (schema->tag && !json_is_string(json_object_get(from, schema->tag))))
		return -1;
	desc_decode(schema, 0, from, &(struct loc){ .key = "message" }, arena, to, &ignored);
	buf_done(&ignored.json);
	return 0;
}
