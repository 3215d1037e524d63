/* Any body, or the first bytes of a WebSocket: what is read from it fits, and is text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/utf8.h"
#include "host/exec_tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	char to[EXEC_TAP_ROOM];
	if (!size)
		return 0;
	auto_free char *data = xcalloc(1, size);
	memcpy(data, input + 1, size - 1);
	(void)exec_tap_whole(data, size - 1);
	exec_tap_read(data, size - 1, input[0] & 1, to);
	if (strlen(to) >= sizeof to || !utf8_valid(to, strlen(to)))
		abort();
	return 0;
}
