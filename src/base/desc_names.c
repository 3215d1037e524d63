#include <stdio.h>
#include <string.h>

#include "base/desc.h"
#include "base/nearest.h"

enum { ENOUGH = 100 };

static bool is_called(const struct field *f, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = f->alias; at && *at; at += *at == ',') {
		size_t n = strcspn(at, ",");
		if (n == len && !strncmp(at, name, n))
			return true;
		at += n;
	}
	return !strcmp(f->name, name);
}

void desc_names(const struct schema *schema, const json_t *from, const struct loc *loc,
		struct problems *problems)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)from, name, value) {
		if (problems->count > ENOUGH) /* none is told any more */
			return;
		const struct field *f = schema->fields, *end = f + schema->count, *meant = NULL;
		size_t best = NEAREST_FAR;
		for (; f < end && (f->flags & (QUERY | PATH | HEADER) || !is_called(f, name)); f++)
			if (!(f->flags & (QUERY | PATH | HEADER | HIDDEN)) &&
			    nearest_better(name, f->name, &best))
				meant = f;
		char message[200];
		snprintf(message, sizeof message, "Unknown field '%.60s'%s%s%s", name,
			 meant ? ": did you mean '" : "", meant ? meant->name : "",
			 meant ? "'?" : "");
		if (f == end)
			desc_problem(problems, "extra_forbidden",
				     &(struct loc){ .up = loc, .key = name }, message, value);
	}
}
