/* Any text: the copy fits, stays UTF-8 where the text is, and masks a password wherever it stands. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/utf8.h"
#include "journal/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const char secret[] = "\npassword=Zq8vXw2k";
	if (!size)
		return 0;
	size_t room = 8 + input[0] * 4;
	auto_free char *text = xstrndup((const char *)input + 1, size - 1);
	auto_free char *to = xmalloc(room), *with = xasprintf("%s%s", text, secret);
	size_t len = mask_text(text, strlen(text), to, room);
	must(len < room && strlen(to) == len);
	must(!utf8_valid(text, strlen(text)) || utf8_valid(to, len));
	mask_text(with, strlen(with), to, room);
	must(!strstr(to, "Zq8vXw2k") || strstr(text, "Zq8vXw2k"));
	return 0;
}
