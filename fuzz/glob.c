/* A pattern and a path: they match or not, in time, and what the pattern is said to be for others lets
 * through at least what it matches itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/glob.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void widened(const struct glob *glob, const char *path)
{
	bool matches = false;
	for (size_t i = 0; i < glob_count(glob); i++) {
		auto_buf struct buf text = BUF(1 << 16);
		bool exact = glob_text(glob, i, &text);
		struct glob *again = text.data ? glob_compile(text.data, NULL) : NULL;
		if (again && glob_match(again, path, true) & GLOB_YES)
			matches = true;
		must(!text.data || text.len > GLOB_LENGTH_MAX || again || !exact);
		glob_free(again);
	}
	must(matches || !(glob_match(glob, path, true) & GLOB_YES) || !*path);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *pattern = xstrndup((const char *)input, size);
	size_t len = strlen(pattern);
	auto_free char *path = len < size ? xstrndup((const char *)input + len + 1, size - len - 1)
					  : xstrdup("a/b.c");
	struct glob *glob = len < 512 ? glob_compile(pattern, NULL) : NULL;
	if (!glob)
		return 0;
	unsigned plain = glob_match(glob, path, false), hidden = glob_match(glob, path, true);
	must((plain & ~hidden) == 0); /* hidden names only add */
	widened(glob, path);
	glob_free(glob);
	return 0;
}
