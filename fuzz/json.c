/* Text as JSON: what is accepted and written again must be accepted again, and be the same. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

struct pieces {
	struct buf got;
};

static int keep(void *arg, const char *data, size_t len)
{
	struct pieces *pieces = arg;
	return buf_add(&pieces->got, data, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *text = xmalloc(size ? size : 1); /* no byte more: a step beyond it shows */
	memcpy(text, input, size);
	size_t at = 0;
	json_t *value = json_parse_at(text, size, &at, NULL);
	if (!value && at > size)
		abort();
	if (!value)
		return 0;
	struct jw whole, flushed;
	struct pieces pieces = { BUF(64 << 20) };
	jw_init(&whole, 64 << 20);
	jw_init(&flushed, JW_FLUSH * 2);
	flushed.flush = keep;
	flushed.arg = &pieces;
	jw_json(&whole, value);
	jw_json(&flushed, value);
	buf_add(&pieces.got, flushed.out.data, flushed.out.len);
	if (jw_failed(&whole) || jw_failed(&flushed) || pieces.got.len != whole.out.len ||
	    memcmp(pieces.got.data, whole.out.data, whole.out.len) != 0)
		abort();
	json_t *again = json_parse(whole.out.data, whole.out.len, NULL);
	if (!again || !json_equal(value, again))
		abort();
	json_decref(again);
	json_decref(value);
	jw_done(&whole);
	jw_done(&flushed);
	buf_done(&pieces.got);
	return 0;
}
