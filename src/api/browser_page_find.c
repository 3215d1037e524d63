/* Where a text stands on the page. */
#include <string.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/frames.h"
#include "browser/tab.h"
#include "net/call.h"

enum { KEYWORD_MAX = 10000, FOUND_MAX = 1000, FRAME_MS = 3000 };

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
	const char *text, *context, *element, *frame;
	int64_t x, y, width, height;
	bool in_viewport;
};
static const struct field match_fields[] = {
	STR(page_match, text, 0, "As it stands there."),
	STR(page_match, context, 0, "With what is around it in the same paragraph."),
	STR(page_match, element, NULLABLE, "The name of the element that it begins in."),
	STR(page_match, frame, NULLABLE,
	    "The URL of the frame that it is in, if not in the main one."),
	INT(page_match, x, 0, "Its left edge, in pixels from that of its frame's viewport."),
	INT(page_match, y, 0, "Its upper edge, in pixels from that of its frame's viewport."),
	INT(page_match, width, 0, "In pixels; 0 where it is not shown."),
	INT(page_match, height, 0, "In pixels."),
	BOOL(page_match, in_viewport, 0, "Whether some of it is scrolled into view."),
};
static const struct schema match_schema = SCHEMA(page_match, "PageTextMatch", match_fields);
static const struct field match_data = {
	.type = T_LIST,
	.item = T_OBJ,
	.of = &match_schema,
	.help = "In the order of the page, the main frame first; at most 1,000."
};

struct page_found {
	struct list matches;
	bool cut;
};
static const struct field found_fields[] = {
	LIST(page_found, matches, 0, "What was found.", .item = T_OBJ, .of = &match_schema),
	BOOL(page_found, cut, 0, "Whether there may be more."),
};
static const struct schema found_schema = SCHEMA(page_found, "PageFound", found_fields);

static json_t *ask_frame(struct page_call *page, const char *frame, const char *keyword,
			 const struct wait *wait, struct err *err)
{
	return frame_js(page->tab, frame, "find_text", json_pack("{s:s}", "keyword", keyword), wait,
			err);
}

static const char *url_of(struct call *call, struct tab *tab, const char *id)
{
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = tab_frame(tab, id);
	const char *url = arena_strdup(call->arena, frame ? frame->url : "");
	pthread_mutex_unlock(&tab->lock);
	return url;
}

/* Adds what the value of a frame has; false: it may have more. */
static bool take_matches(struct call *call, json_t *value, const char *url,
			 struct page_match to[FOUND_MAX], size_t *count)
{
	const struct page_found *found = page_decode(call, &found_schema, value);
	const struct page_match *matches = found->matches.items;
	size_t room = FOUND_MAX - *count,
	       taken = found->matches.count < room ? found->matches.count : room;
	for (size_t i = 0; i < taken; i++) {
		to[*count] = matches[i];
		to[(*count)++].frame = url;
	}
	return !found->cut && taken == found->matches.count;
}

/* A frame that hangs is passed over. */
static bool find_below(struct call *call, struct page_call *page, const char *keyword,
		       struct page_match to[FOUND_MAX], size_t *count)
{
	struct frame_list frames;
	struct err ignored;
	bool whole = true;
	frames_list(page->tab, &frames);
	for (size_t i = 1; i < frames.count && *count < FOUND_MAX; i++) {
		struct wait until = page->wait;
		int64_t soon = clock_ms() + FRAME_MS;
		until.until_ms = soon < until.until_ms ? soon : until.until_ms;
		json_t *value = ask_frame(page, frames.ids[i], keyword, &until, &ignored);
		const char *url = url_of(call, page->tab, frames.ids[i]);
		whole &= value && take_matches(call, value, url, to, count);
	}
	frames_done(&frames);
	return whole;
}

static int find_text(struct call *call, const void *in, struct err *err)
{
	const struct page_find *request = in;
	struct page_call page;
	struct err cause = { 0 };
	if (!request->keyword[strspn(request->keyword, " \t\r\n")])
		return err_set(err, ERR_INVALID, "keyword is empty");
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	json_t *value = ask_frame(&page, NULL, request->keyword, &page.wait, &cause);
	if (!value)
		return page_failed(call, &page, &cause, err);
	struct page_match *matches = arena_alloc(call->arena, FOUND_MAX * sizeof *matches);
	size_t count = 0;
	bool whole = take_matches(call, value, NULL, matches, &count);
	whole &= find_below(call, &page, request->keyword, matches, &count);
	if (!whole)
		call->hint =
			"There may be more: the page is too large, or a frame of it too slow, to be searched whole.";
	return page_reply(call, &page, &(struct list){ count, matches }, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/find_text", find_text, &find_schema, &match_data,
	  "Find text on the page",
	  "Every place where the page in the active tab shows a text, also where a part of it is in "
	  "bold or a link, and in all its frames." },
};
const struct route_group browser_page_find_group = { "browser", "Text on the page.", routes,
						     COUNT(routes) };
