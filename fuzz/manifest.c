/* The JSON of an image: which files it names, and how many. */
#include "host/manifest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *name, bool oci)
{
	if (name && (!*name || (oci && (strncmp(name, "blobs/sha256/", 13) != 0 ||
					strspn(name + 13, "0123456789abcdef") != 64 ||
					strlen(name) != 13 + 64))))
		abort();
}

static void read_manifest(const json_t *manifest, bool oci)
{
	const json_t *layers = manifest_layers(manifest, oci, NULL);
	size_t count = json_array_size(layers);
	if (layers && (count < 1 || count > MANIFEST_LAYERS_MAX))
		abort();
	for (size_t i = 0; i < count; i++) {
		auto_free char *name = manifest_layer(layers, i, oci, NULL);
		check(name, oci);
	}
	auto_free char *config = manifest_config(manifest, oci, NULL);
	check(config, oci);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	json_t *value = json_parse(text, strlen(text), NULL);
	auto_free char *next = manifest_blob(manifest_choose(value), NULL);
	check(next, true);
	read_manifest(value, true);
	read_manifest(value, false);
	json_decref(value);
	return 0;
}
