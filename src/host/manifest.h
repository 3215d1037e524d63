/* manifest.h - the JSON of images: which manifest is for this machine, and where its layers are. All of
 * it is hostile; this is pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum { MANIFEST_LAYERS_MAX = 256, MANIFEST_JSON_MAX = 4 << 20 };

/* Of an index: the descriptor for this machine's processor, else the first; NULL: there is none. */
const json_t *manifest_choose(const json_t *index);

/* The name of the file that a descriptor stands for, "blobs/sha256/…"; free() it. NULL with err. */
char *manifest_blob(const json_t *descriptor, struct err *err);

/* The list of layers of an OCI manifest, or of the first image of Docker's manifest.json: checked for
 * their number. NULL with err. */
const json_t *manifest_layers(const json_t *manifest, bool oci, struct err *err);

/* The file of one of them: free() it. NULL with err. */
char *manifest_layer(const json_t *layers, size_t index, bool oci, struct err *err);

/* The file with the image's configuration: free() it. NULL: it has none; with err: no valid one. */
char *manifest_config(const json_t *manifest, bool oci, struct err *err);
