/* Clicking on the page, and pointing at it. */
#include <math.h>
#include <string.h>

#include "api/browser_page_act.h"
#include "api/routes.h"
#include "base/err.h"
#include "net/call.h"

enum { CLICKS_MAX = 20 };

struct page_click {
	const char *selector;
	int64_t index;
	double x, y;
	const char *button;
	int64_t click_count;
	double timeout;
};
static const struct field click_fields[] = {
	SELECTOR_FIELD(page_click, OPTIONAL),
	INDEX_FIELD(page_click),
	NUM(page_click, x, OPTIONAL,
	    "With y instead of an element: CSS pixels from the left of the viewport."),
	NUM(page_click, y, OPTIONAL, "CSS pixels from the top of the viewport."),
	STR(page_click, button, OPTIONAL, "left, right or middle.", .def = "left", .max_len = 20),
	INT(page_click, click_count, MIN | MAX, "2 is a double click.", .def = "1", .min = 1,
	    .max = CLICKS_MAX),
	TIMEOUT_FIELD(page_click),
};
static const struct schema click_schema = SCHEMA(page_click, "ClickRequest", click_fields);

struct page_hover {
	const char *selector;
	int64_t index;
	double x, y;
	double timeout;
};
static const struct field hover_fields[] = {
	SELECTOR_FIELD(page_hover, OPTIONAL),
	INDEX_FIELD(page_hover),
	NUM(page_hover, x, OPTIONAL,
	    "With y instead of an element: CSS pixels from the left of the viewport."),
	NUM(page_hover, y, OPTIONAL, "CSS pixels from the top of the viewport."),
	TIMEOUT_FIELD(page_hover),
};
static const struct schema hover_schema = SCHEMA(page_hover, "HoverRequest", hover_fields);

static const struct field pointed_data = {
	.type = T_JSON,
	.help = "`element`, what was meant, as <button id=\"save\">; `x` and `y`, where, in CSS pixels of the "
		"viewport.",
};

/* An element, or a point. */
struct aim {
	struct act_target target;
	struct input_point at;
	bool is_point;
};

static int take_aim(const char *selector, int64_t index, double x, double y, struct aim *ret,
		    struct err *err)
{
	*ret = (struct aim){ .at = { x, y } };
	ret->is_point = !(selector && *selector) && index == INT_ABSENT;
	if (!ret->is_point)
		return page_target(selector, index, &ret->target, err);
	if (!isnan(x) && !isnan(y))
		return 0;
	return err_set(err, ERR_INVALID,
		       "what is meant is missing: give selector, index, or x and y");
}

static int button_of(const char *name, enum input_button *ret, struct err *err)
{
	static const char *const names[] = {
		[INPUT_LEFT] = "left", [INPUT_RIGHT] = "right", [INPUT_MIDDLE] = "middle"
	};
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strcmp(name, names[i])) {
			*ret = (enum input_button)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, "invalid button '%s': expected left, right or middle",
		       name);
}

static int page_click(struct call *call, const void *in, struct err *err)
{
	const struct page_click *r = in;
	enum input_button button = INPUT_LEFT;
	struct page_call page;
	struct aim aim;
	struct err cause = { 0 };
	if (take_aim(r->selector, r->index, r->x, r->y, &aim, err) < 0 ||
	    button_of(r->button, &button, err) < 0 ||
	    page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = aim.is_point ? act_click_at(page.tab, aim.at, button, r->click_count,
						   &page.wait, &cause)
				    : act_click(page.tab, &aim.target, button, r->click_count,
						&page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

static int page_hover(struct call *call, const void *in, struct err *err)
{
	const struct page_hover *r = in;
	struct page_call page;
	struct aim aim;
	struct err cause = { 0 };
	if (take_aim(r->selector, r->index, r->x, r->y, &aim, err) < 0 ||
	    page_act_begin(call, r->timeout, &page, err) < 0)
		return -1;
	json_t *done = aim.is_point ? act_hover_at(page.tab, aim.at, &page.wait, &cause)
				    : act_hover(page.tab, &aim.target, &page.wait, &cause);
	return page_act_reply(call, &page, done, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/click", page_click, &click_schema, &pointed_data,
	  "Click on an element or a point",
	  "Waits until the element is visible, does not move, is enabled, is scrolled into view and is "
	  "not covered; then clicks on its middle with real input. Where that leads to another "
	  "document, it is waited for, up to 5 seconds. The hint tells of dialogs, tabs and downloads." },
	{ "POST", "/v1/browser/page/hover", page_hover, &hover_schema, &pointed_data,
	  "Move the pointer over an element or to a point",
	  "Waits as a click does, but for that the element is enabled." },
};
const struct route_group browser_page_click_group = { "browser", "The page that the browser shows.",
						      routes, COUNT(routes) };
