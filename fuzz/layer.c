/* Names of an archive's entries: what comes out is below the root, whatever goes in. */
#include "host/layer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *path)
{
	int depth = 0;
	if (strlen(path) >= PATH_MAX || *path == '/')
		abort();
	for (size_t len; *path; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		if (!len || len > NAME_MAX || ++depth > LAYER_DEPTH_MAX ||
		    (len <= 2 && !strncmp(path, "..", len)) || (path[len] && !path[len + 1]))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *name = xstrndup((const char *)data, size);
	for (int layer = 0; layer < 2; layer++) {
		char path[PATH_MAX];
		enum layer_kind kind;
		struct err err;
		if (layer_entry(name, layer, path, &kind, &err) == 0 && kind != LAYER_NOTHING)
			check(path);
	}
	return 0;
}
