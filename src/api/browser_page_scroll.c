/* Scrolling the page. */
#include <string.h>

#include "api/browser_page_act.h"
#include "api/routes.h"
#include "base/err.h"
#include "browser/tab.h"
#include "net/call.h"

enum { FAR = 10000000, SCROLL_TIME = 30 };

struct page_scroll {
	const char *direction;
	int64_t amount;
};
static const char *const ways[] = { "down", "up", "left", "right", NULL };
static const struct field scroll_fields[] = {
	STR(page_scroll, direction, OPTIONAL, "down, up, left or right.", .def = "down",
	    .max_len = 20),
	INT(page_scroll, amount, MIN | MAX, "CSS pixels.", .def = "300", .min = -FAR, .max = FAR),
};
static const struct schema scroll_schema = SCHEMA(page_scroll, "ScrollRequest", scroll_fields);

struct page_scroll_to {
	int64_t x, y;
};
static const struct field scroll_to_fields[] = {
	INT(page_scroll_to, x, MIN | MAX, "CSS pixels from the left of the page.", .def = "0",
	    .min = -FAR, .max = FAR),
	INT(page_scroll_to, y, MIN | MAX, "CSS pixels from the top of the page.", .def = "0",
	    .min = -FAR, .max = FAR),
};
static const struct schema scroll_to_schema =
	SCHEMA(page_scroll_to, "ScrollToRequest", scroll_to_fields);

struct page_scroll_element {
	const char *selector;
	int64_t index;
	double timeout;
};
static const struct field scroll_element_fields[] = {
	SELECTOR_FIELD(page_scroll_element, OPTIONAL),
	INDEX_FIELD(page_scroll_element),
	TIMEOUT_FIELD(page_scroll_element),
};
static const struct schema scroll_element_schema =
	SCHEMA(page_scroll_element, "ScrollToElementRequest", scroll_element_fields);

static const struct field scrolled_data = {
	.type = T_JSON,
	.help = "`x` and `y`: how far it is scrolled now, in CSS pixels; `max_x` and `max_y`: how far it can be.",
};

static bool is_way(const char *direction)
{
	size_t i = 0;
	while (ways[i] && strcmp(ways[i], direction) != 0)
		i++;
	return ways[i];
}

static int run(struct call *call, const char *function, json_t *args, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	if (page_act_begin(call, SCROLL_TIME, &page, err) < 0) {
		json_decref(args);
		return -1;
	}
	json_t *done = frame_js(page.tab, NULL, function, args, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

static int page_scroll(struct call *call, const void *in, struct err *err)
{
	const struct page_scroll *r = in;
	if (!is_way(r->direction))
		return err_set(err, ERR_INVALID,
			       "invalid direction '%s': expected down, up, left or right",
			       r->direction);
	return run(call, "scroll",
		   json_pack("{s:s, s:I}", "direction", r->direction, "amount",
			     (json_int_t)r->amount),
		   err);
}

static int page_scroll_to(struct call *call, const void *in, struct err *err)
{
	const struct page_scroll_to *r = in;
	return run(call, "scroll_to",
		   json_pack("{s:I, s:I}", "x", (json_int_t)r->x, "y", (json_int_t)r->y), err);
}

static int page_scroll_to_element(struct call *call, const void *in, struct err *err)
{
	const struct page_scroll_element *r = in;
	struct act_target target;
	struct page_call page;
	struct err cause = { 0 };
	if (page_target(r->selector, r->index, &target, err) < 0 ||
	    page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = act_on(page.tab, &target, "scroll_to_element", NULL, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/scroll", page_scroll, &scroll_schema, &scrolled_data,
	  "Scroll the page",
	  "What a wheel in the middle of the page would scroll: the page, or a part of it that "
	  "scrolls by itself." },
	{ "POST", "/v1/browser/page/scroll_to", page_scroll_to, &scroll_to_schema, &scrolled_data,
	  "Scroll the page to a position" },
	{ "POST", "/v1/browser/page/scroll_to_element", page_scroll_to_element,
	  &scroll_element_schema, &scrolled_data, "Scroll an element into view",
	  "Into the middle, where the page is long enough." },
};
const struct route_group browser_page_scroll_group = { "browser",
						       "The page that the browser shows.", routes,
						       COUNT(routes) };
