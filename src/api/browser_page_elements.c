/* The elements of the page that a person could use. */
#include "api/browser_page_act.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "net/call.h"

enum { LIST_TIME = 30 };

static const struct field elements_data = {
	.type = T_LIST,
	.item = T_JSON,
	.help = "In the order of the page, the main frame first. Of each: `index`, what other calls take; "
		"`tag`, `role`, accessible `name`, the beginning of its `text`; `x`, `y`, `width`, "
		"`height` in CSS pixels of its frame's viewport, and whether it is `in_viewport`; "
		"`disabled`; and what it has of `type`, `value` (never a password's), `placeholder`, "
		"`href`, `options` (labels, at most 100), `checked`, `selected`, `expanded`, `pressed`, "
		"`level`, `editable`, `required`, `focused`; `frame`, the URL of a frame that is not the "
		"main one.",
};

static void drop(void *json)
{
	json_decref(json);
}

static int page_elements(struct call *call, const void *in, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	(void)in;
	if (page_act_begin(call, LIST_TIME, &page, err) < 0)
		return -1;
	json_t *all = act_elements(page.tab, ACT_ELEMENTS_MAX, &page.wait, &cause);
	if (!all)
		return page_failed(call, &page, &cause, err);
	arena_defer(call->arena, drop, all);
	size_t count = json_array_size(all);
	json_t **items = arena_alloc(call->arena, (count + 1) * sizeof *items);
	for (size_t i = 0; i < count; i++)
		items[i] = json_array_get(all, i);
	if (count >= ACT_ELEMENTS_MAX)
		call->message = "The page has more elements than these: the first 2000";
	return page_reply(call, &page, &(struct list){ count, items }, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/elements", page_elements, NULL, &elements_data,
	  "List the elements of the page that can be used",
	  "Those that are visible, of all frames, at most 2000: links, buttons, fields and what else "
	  "can be clicked, with an index that other calls take. An index stays the element's until it "
	  "goes; after the page has gone to another document they are to be listed again." },
};
const struct route_group browser_page_elements_group = { "browser",
							 "The page that the browser shows.", routes,
							 COUNT(routes) };
