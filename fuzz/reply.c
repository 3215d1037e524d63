/* What the document worker might answer once a document has got hold of it. */
#include "document/reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { TEXT_MAX = 1000 };

static void take_facts(const uint8_t *input, size_t size)
{
	auto_free char *facts = xmalloc(size ? size : 1);
	json_t *metadata = NULL;
	struct err err = { 0 };
	memcpy(facts, input, size);
	int result = reply_facts(facts, size, &metadata, &err);
	if (result == 0 ? !json_is_object(metadata)
			: metadata || !err.code || !memchr(err.msg, 0, sizeof err.msg))
		abort();
	json_decref(metadata);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	size_t facts = 0, text = 0;
	if (size < REPLY_HEAD)
		return 0;
	if (reply_head(input, TEXT_MAX, &facts, &text, NULL) == 0) {
		if (facts > REPLY_FACTS_MAX || text > TEXT_MAX)
			abort();
		size_t rest = size - REPLY_HEAD;
		take_facts(input + REPLY_HEAD, facts < rest ? facts : rest);
	}
	take_facts(input, size);
	return 0;
}
