/* Any text as TOML; and as a string in one, which is TOML then. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/toml.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *text = xstrndup((const char *)input, size);
	auto_buf struct buf quoted = BUF(size * 8 + 16);
	(void)toml_check((const char *)input, size, NULL);
	buf_str(&quoted, "a = ");
	toml_string(&quoted, text);
	if (utf8_valid(text, strlen(text)) && toml_check(quoted.data, quoted.len, NULL) < 0)
		abort();
	return 0;
}
