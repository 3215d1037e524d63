/* A SKILL.md taken apart: what is accepted is an object that JSON can carry, no larger than its text
 * allows, and the content lies within the text. */
#include "skill/skill.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_metadata(json_t *metadata)
{
	auto_free char *text = json_is_object(metadata) ? json_dumps(metadata, JSON_COMPACT) : NULL;
	json_t *again = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
	if (!text)
		abort();
	if (again && !json_equal(metadata, again))
		abort();
	json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *text = xmalloc(size ? size : 1); /* no byte more: a step beyond it shows */
	auto_free char *name = xstrndup((const char *)input, size);
	json_t *metadata = NULL;
	size_t content = 0;
	struct err err = { 0 };
	memcpy(text, input, size);
	if (skill_parse(text, size, &metadata, &content, &err) == 0) {
		if (content > size)
			abort();
		check_metadata(metadata);
		json_decref(metadata);
	} else if (err.code != ERR_BAD_REQUEST || !*err.msg) {
		abort();
	}
	if (skill_name_valid(name) && (strlen(name) > SKILL_NAME_MAX || strpbrk(name, "/\\ \n") ||
				       *name == '.' || strstr(name, "..")))
		abort();
	return 0;
}
