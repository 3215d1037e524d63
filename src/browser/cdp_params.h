/* cdp_params.h - members of what the browser sends, none of which can be relied upon. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* "" where it is absent, or not a string. */
static inline const char *cdp_text(const json_t *params, const char *key)
{
	const char *text = json_string_value(json_object_get(params, key));
	return text ? text : "";
}

/* What JavaScript can count to. */
#define CDP_INT_MAX ((int64_t)1 << 53)

/* Never beyond that, so that sums and differences of a few are exact. */
static inline int64_t cdp_int(const json_t *params, const char *key)
{
	double value = json_number_value(json_object_get(params, key));
	return value > (double)CDP_INT_MAX    ? CDP_INT_MAX
	       : value < (double)-CDP_INT_MAX ? -CDP_INT_MAX
					      : (int64_t)value;
}

static inline bool cdp_true(const json_t *params, const char *key)
{
	return json_is_true(json_object_get(params, key));
}

/* Of headers, an object, the one of that name in whatever case; NULL: there is none, or it is not a string. */
static inline const char *cdp_header(const json_t *headers, const char *wanted)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)headers, name, value)
		if (!strcasecmp(name, wanted))
			return json_string_value(value);
	return NULL;
}

/* Takes an id of the browser's, which fits. False, and "": this one does not, or is empty. */
static inline bool cdp_id(char *to, size_t room, const char *id)
{
	size_t len = strlen(id);
	bool fits = len > 0 && len < room;
	memcpy(to, id, fits ? len : 0);
	to[fits ? len : 0] = 0;
	return fits;
}
