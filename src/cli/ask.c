#include "cli/ask.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"

enum { PAGE = 1000, TRIES = 5 };

/* On a terminal without the characters that do something to it. */
void ask_print(const json_t *value)
{
	size_t plain = isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0;
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY | plain);
	putchar('\n');
}

json_t *ask_box(struct ask *ask, const char *method, const char *what, json_t *body)
{
	auto_buf struct buf path = BUF(512);
	buf_str(&path, "/v1/sandboxes/");
	url_encode(&path, ask->argv[0]);
	buf_str(&path, what);
	return remote_call(&ask->remote, method, path.data, body, &ask->err);
}

/* Adds a page to the list: how many there are in all, or -1. */
static json_int_t add_page(struct ask *ask, json_t *list)
{
	auto_free char *path =
		xasprintf("/v1/sandboxes?limit=%d&offset=%zu", PAGE, json_array_size(list));
	json_t *page = remote_call(&ask->remote, "GET", path, NULL, &ask->err);
	json_t *more = json_object_get(page, "sandboxes");
	json_int_t total = page ? json_integer_value(json_object_get(page, "total")) : -1;
	json_array_extend(list, more);
	if (page && !json_array_size(more) && total > (json_int_t)json_array_size(list))
		total = (json_int_t)json_array_size(list); /* no more is told */
	json_decref(page);
	return total;
}

/* A box that goes while pages are read moves those behind it up by one, past the next page. */
json_t *ask_boxes(struct ask *ask)
{
	json_t *list = json_array();
	json_int_t first = -1, total = 0;
	for (int tries = 0;;) {
		total = add_page(ask, list);
		if (total >= 0 && total < first && ++tries < TRIES) {
			json_array_clear(list);
			first = -1;
			continue;
		}
		first = total;
		if (total <= (json_int_t)json_array_size(list))
			break;
	}
	if (total >= 0)
		return list;
	json_decref(list);
	return NULL;
}

/* Whether a character of several bytes is one that a terminal shows: no control character of C1, and none
 * that is invisible or changes the direction of others. */
static bool is_shown(const char *at, size_t len)
{
	const unsigned char *c = (const unsigned char *)at;
	unsigned code = len == 2   ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
			: len == 3 ? (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
				   : (c[0] & 7u) << 18 | (c[1] & 0x3fu) << 12;
	return code >= 0xa0 && !(code >= 0x200b && code <= 0x200f) &&
	       !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2060 && code <= 0x206f) &&
	       code != 0x61c && code != 0xfeff && code < 0xe0000;
}

void ask_make_plain(char *text, size_t len, bool lines)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_char(text + i, len - i);
		bool shown = n > 1 ? is_shown(text + i, n)
				   : (text[i] >= ' ' && text[i] <= '~') ||
					     (lines && (text[i] == '\n' || text[i] == '\t'));
		n = n ? n : 1;
		if (!shown)
			memset(text + i, '?', n);
	}
}
