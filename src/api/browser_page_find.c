/* Where a text stands on the page. */
#include <string.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/err.h"
#include "browser/tab.h"
#include "net/call.h"

enum { KEYWORD_MAX = 10000 };

struct page_find {
	const char *keyword;
};
static const struct field find_fields[] = {
	STR(page_find, keyword, REQUIRED,
	    "What to look for, in capitals or not; any space stands for any other.",
	    .max_len = KEYWORD_MAX),
};
static const struct schema find_schema = SCHEMA(page_find, "FindTextRequest", find_fields);

struct page_match {
	const char *text, *context, *element;
	int64_t x, y, width, height;
	bool in_viewport;
};
static const struct field match_fields[] = {
	STR(page_match, text, 0, "As it stands there."),
	STR(page_match, context, 0, "With what is around it in the same paragraph."),
	STR(page_match, element, NULLABLE, "The name of the element that it begins in."),
	INT(page_match, x, 0, "Its left edge, in pixels from that of the viewport."),
	INT(page_match, y, 0, "Its upper edge, in pixels from that of the viewport."),
	INT(page_match, width, 0, "In pixels; 0 where it is not shown."),
	INT(page_match, height, 0, "In pixels."),
	BOOL(page_match, in_viewport, 0, "Whether some of it is scrolled into view."),
};
static const struct schema match_schema = SCHEMA(page_match, "PageTextMatch", match_fields);
static const struct field match_data = { .type = T_LIST,
					 .item = T_OBJ,
					 .of = &match_schema,
					 .help = "In the order of the page; at most 1,000." };

struct page_found {
	struct list matches;
	bool cut;
};
static const struct field found_fields[] = {
	LIST(page_found, matches, 0, "What was found.", .item = T_OBJ, .of = &match_schema),
	BOOL(page_found, cut, 0, "Whether there may be more."),
};
static const struct schema found_schema = SCHEMA(page_found, "PageFound", found_fields);

static int find_text(struct call *call, const void *in, struct err *err)
{
	const struct page_find *request = in;
	struct page_call page;
	struct err cause = { 0 };
	if (!request->keyword[strspn(request->keyword, " \t\r\n")])
		return err_set(err, ERR_INVALID, "keyword is empty");
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	json_t *args = json_pack("{s:s}", "keyword", request->keyword);
	json_t *value = frame_js(page.tab, NULL, "find_text", args, &page.wait, &cause);
	if (!value)
		return page_failed(call, &page, &cause, err);
	const struct page_found *found = page_decode(call, &found_schema, value);
	if (found->cut)
		call->hint = "There may be more: the page is too large to be searched whole.";
	return page_reply(call, &page, &found->matches, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/find_text", find_text, &find_schema, &match_data,
	  "Find text on the page",
	  "Every place where the page in the active tab shows a text, also where a part of it is in "
	  "bold or a link." },
};
const struct route_group browser_page_find_group = { "browser", "Text on the page.", routes,
						     COUNT(routes) };
