/* yaml.h - YAML as JSON, for small texts that people write. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct err;

enum { YAML_MAX = 65536, YAML_DEPTH_MAX = 32 };

/* The first document of a text; null for an empty one. Aliases and keys that are no text are refused:
 * no text becomes larger than it is. NULL with ERR_INVALID, which names the line. */
json_t *yaml_parse(const char *text, size_t len, struct err *err);
