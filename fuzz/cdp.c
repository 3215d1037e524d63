/* Messages of a browser, whole and cut off, as a page might have it send them. */
#include "browser/cdp_message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *text = xmalloc(size + 1);
	struct cdp_message m;
	struct err err = { 0 };
	memcpy(text, input, size);
	text[size] = 0;
	int64_t id = cdp_message_peek(text, size);
	int result = cdp_message_read(text, size, &m, &err);
	if (id < 0 || m.id < 0 || (result < 0 && !err.code))
		abort();
	if (result == 0 && m.id ? !json_is_object(m.result) : result == 0 && !m.method)
		abort();
	if (result == 0 && !m.id && (!m.session || !json_is_object(m.params)))
		abort();
	cdp_message_done(&m);
	return 0;
}
