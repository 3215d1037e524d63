/* The keyboard, where the page has its focus. */
#include <string.h>

#include "api/browser_page_act.h"
#include "api/routes.h"
#include "base/err.h"
#include "browser/web_keys.h"
#include "net/call.h"

enum { DELAY_MAX_MS = 10000, KEYS_TIME = 30 };

struct page_type {
	const char *text;
	double delay;
};
static const struct field type_fields[] = {
	STR(page_type, text, REQUIRED,
	    "What to type, of any script. A line feed is Enter, a tabulator is Tab.",
	    .max_len = PAGE_TEXT_MAX),
	NUM(page_type, delay, MIN | MAX, "Milliseconds between two keystrokes.", .def = "0",
	    .min = 0, .max = DELAY_MAX_MS),
};
static const struct schema type_schema = SCHEMA(page_type, "TypeTextRequest", type_fields);

struct page_key {
	const char *key;
};
static const struct field key_fields[] = {
	STR(page_key, key, REQUIRED,
	    "A key by its DOM name (Enter, ArrowDown, F5, a), the name X11 has for it, or a "
	    "combination: Control+A.",
	    .max_len = 200),
};
static const struct schema key_schema = SCHEMA(page_key, "KeyRequest", key_fields);

struct page_hot_key {
	struct list keys;
};
static const struct field hot_key_fields[] = {
	LIST(page_hot_key, keys, REQUIRED,
	     "The keys, pressed in this order and released in the opposite one: "
	     "[\"Control\", \"a\"].",
	     .item = T_STR, .min_len = 1, .max_len = WEB_KEYS_MAX),
};
static const struct schema hot_key_schema = SCHEMA(page_hot_key, "HotKeyRequest", hot_key_fields);

static const struct field nothing = { .type = T_JSON };

static int answer(struct call *call, struct page_call *page, int result, const struct err *cause,
		  struct err *err)
{
	return page_act_reply(call, page, result < 0 ? NULL : json_null(), cause, err);
}

/* How long it may take: as long as the pauses do, and some more for each key. */
static double time_for(const struct page_type *r)
{
	size_t len = strlen(r->text);
	return KEYS_TIME + (double)len * (r->delay + 5) / 1000;
}

static int page_type(struct call *call, const void *in, struct err *err)
{
	const struct page_type *r = in;
	struct page_call page;
	struct err cause = { 0 };
	if (page_act_begin(call, time_for(r), &page, err) < 0)
		return -1;
	int result = act_type(page.tab, r->text, (int64_t)r->delay, &page.wait, &cause);
	return answer(call, &page, result, &cause, err);
}

static int press(struct call *call, const struct web_key *keys, size_t count, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	if (page_act_begin(call, KEYS_TIME, &page, err) < 0)
		return -1;
	int result = act_keys(page.tab, keys, count, &page.wait, &cause);
	return answer(call, &page, result, &cause, err);
}

static int page_press_key(struct call *call, const void *in, struct err *err)
{
	const struct page_key *r = in;
	struct web_key keys[WEB_KEYS_MAX];
	size_t count = web_keys_parse(r->key, keys, err);
	return count ? press(call, keys, count, err) : -1;
}

static int page_hot_key(struct call *call, const void *in, struct err *err)
{
	const struct page_hot_key *r = in;
	const char *const *names = r->keys.items;
	struct web_key keys[WEB_KEYS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < r->keys.count; i++) {
		struct web_key some[WEB_KEYS_MAX];
		size_t more = web_keys_parse(names[i], some, err);
		if (!more)
			return -1;
		if (count + more > WEB_KEYS_MAX)
			return err_set(err, ERR_INVALID, "more than %d keys at once", WEB_KEYS_MAX);
		memcpy(keys + count, some, more * sizeof *some);
		count += more;
	}
	return press(call, keys, count, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/type", page_type, &type_schema, &nothing,
	  "Type where the focus is",
	  "Key by key; characters that the keyboard does not have are entered as an input method "
	  "would." },
	{ "POST", "/v1/browser/page/press_key", page_press_key, &key_schema, &nothing,
	  "Press a key", "Where the page has its focus." },
	{ "POST", "/v1/browser/page/hot_key", page_hot_key, &hot_key_schema, &nothing,
	  "Press keys together", "Where the page has its focus." },
};
const struct route_group browser_page_keys_group = { "browser", "The page that the browser shows.",
						     routes, COUNT(routes) };
