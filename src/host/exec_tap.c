#include "host/exec_tap.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "journal/mask.h"

enum { TEXT_FRAME = 0x81, MASKED = 0x80, LONG = 126, HUGE = 127, KEY = 4 };

/* A whole, masked text frame at the beginning: where its payload is, after the key, or 0. */
static size_t find_payload(const char *data, size_t len, size_t *ret_len)
{
	const uint8_t *bytes = (const uint8_t *)data;
	if (len < 2 || bytes[0] != TEXT_FRAME || !(bytes[1] & MASKED))
		return 0;
	size_t size = bytes[1] & ~MASKED, at = 2;
	if (size == HUGE)
		return 0;
	if (size == LONG) {
		if (len < 4)
			return 0;
		size = (size_t)bytes[2] << 8 | bytes[3];
		at = 4;
	}
	if (len < at + KEY + size)
		return 0;
	*ret_len = size;
	return at + KEY;
}

bool exec_tap_whole(const char *data, size_t len)
{
	size_t size;
	return find_payload(data, len, &size) > 0;
}

static size_t cut(const char *text, size_t len)
{
	size_t at = 0;
	for (int i = 0; i < EXEC_TAP_CHARACTERS && at < len; i++) {
		size_t size = utf8_char(text + at, len - at);
		at += size ? size : 1;
	}
	return at;
}

void exec_tap_read(char *data, size_t len, bool frame, char to[EXEC_TAP_ROOM])
{
	*to = 0;
	if (frame) {
		size_t size, at = find_payload(data, len, &size);
		if (!at)
			return;
		for (size_t i = 0; i < size; i++)
			data[at + i] ^= data[at - KEY + i % KEY];
		data += at;
		len = size;
	}
	json_t *body = json_parse(data, len, NULL);
	const json_t *text = json_object_get(body, "command");
	if (!json_is_string(text))
		text = json_object_get(body, "code");
	if (json_is_string(text)) {
		size_t size = mask_text(json_string_value(text), json_string_length(text), to,
					EXEC_TAP_ROOM);
		size_t end = cut(to, size);
		memcpy(to + end, end < size ? "…" : "", end < size ? sizeof "…" : 1);
	}
	json_decref(body);
}
