/* What an image says about running it: hostile, and heeded by every box made from it. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *config = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
	json_t *settings = image_settings(config, "/usr"), *list = json_array();
	image_environment(settings, NULL, list);
	size_t i;
	json_t *one;
	json_array_foreach(list, i, one) {
		const char *pair = json_string_value(one);
		if (!strchr(pair, '=') || *pair == '=' || !strncmp(pair, "AIO_", 4) ||
		    !strncmp(pair, "HOME=", 5))
			abort();
	}
	json_decref(list);
	json_decref(settings);
	json_decref(config);
	return 0;
}
