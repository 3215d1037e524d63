#include "host/manifest.h"

#include <string.h>

#include "base/err.h"
#include "base/own.h"

#ifdef __aarch64__
#define MACHINE "arm64"
#else
#define MACHINE "amd64"
#endif

const json_t *manifest_choose(const json_t *index)
{
	const json_t *manifests = json_object_get(index, "manifests");
	for (size_t i = 0; i < json_array_size(manifests); i++) {
		const json_t *m = json_array_get(manifests, i), *p = json_object_get(m, "platform");
		const char *machine = json_string_value(json_object_get(p, "architecture"));
		if (machine && !strcmp(machine, MACHINE))
			return m;
	}
	return json_array_get(manifests, 0);
}

char *manifest_blob(const json_t *descriptor, struct err *err)
{
	const char *digest = json_string_value(json_object_get(descriptor, "digest"));
	if (digest && !strncmp(digest, "sha256:", 7) && strlen(digest) == 71 &&
	    strspn(digest + 7, "0123456789abcdef") == 64)
		return xasprintf("blobs/sha256/%s", digest + 7);
	err_set(err, ERR_INVALID, "the image has a digest that is not sha256");
	return NULL;
}

const json_t *manifest_layers(const json_t *manifest, bool oci, struct err *err)
{
	const json_t *layers = json_object_get(oci ? manifest : json_array_get(manifest, 0),
					       oci ? "layers" : "Layers");
	size_t count = json_array_size(layers);
	if (!layers)
		err_set(err, ERR_INVALID,
			oci ? "the image has no manifest"
			    : "its manifest.json is not that of 'docker save' (an OCI layout has "
			      "index.json)");
	else if (count < 1 || count > MANIFEST_LAYERS_MAX)
		err_set(err, ERR_INVALID, "the image has %zu layers: expected 1 to %d", count,
			MANIFEST_LAYERS_MAX);
	else
		return layers;
	return NULL;
}

/* A name that Docker's manifest has; the file is looked for below the image's directory. */
static char *file_name(const json_t *name, struct err *err)
{
	const char *text = json_string_value(name);
	if (text && *text && strlen(text) == json_string_length(name))
		return xstrdup(text);
	err_set(err, ERR_INVALID, "manifest.json names a file that is not a string");
	return NULL;
}

char *manifest_layer(const json_t *layers, size_t index, bool oci, struct err *err)
{
	const json_t *layer = json_array_get(layers, index);
	return oci ? manifest_blob(layer, err) : file_name(layer, err);
}

char *manifest_config(const json_t *manifest, bool oci, struct err *err)
{
	const json_t *config = json_object_get(oci ? manifest : json_array_get(manifest, 0),
					       oci ? "config" : "Config");
	if (!config || json_is_null(config))
		return NULL;
	return oci ? manifest_blob(config, err) : file_name(config, err);
}
