/* What the page says, to be read: its content as Markdown. */
#include "api/page_call.h"
#include "api/routes.h"
#include "base/err.h"
#include "browser/tab.h"
#include "net/call.h"

struct page_markdown {
	const char *title, *url, *markdown, *byline, *published, *excerpt, *site, *language;
	bool article, truncated;
};
static const struct field markdown_fields[] = {
	STR(page_markdown, title, 0, "The page's title."),
	STR(page_markdown, url, 0, "The page's URL."),
	STR(page_markdown, markdown, 0,
	    "Its content: without navigation, banners, sidebars and advertisements; with headings, "
	    "links, lists, tables, code and images."),
	STR(page_markdown, byline, NULLABLE, "Who wrote it, where the page says so."),
	STR(page_markdown, published, NULLABLE, "When it was published, where the page says so."),
	STR(page_markdown, excerpt, NULLABLE, "The page's description of itself."),
	STR(page_markdown, site, NULLABLE, "The name of the site."),
	STR(page_markdown, language, NULLABLE, "The page's language, such as \"en\"."),
	BOOL(page_markdown, article, 0,
	     "Whether a main text was found. If not, the Markdown is of the whole page."),
	BOOL(page_markdown, truncated, 0,
	     "Whether the page goes on: at most 500,000 characters and 400,000 nodes are read."),
};
static const struct schema markdown_schema = SCHEMA(page_markdown, "PageMarkdown", markdown_fields);
static const struct field markdown_data = { .type = T_OBJ, .of = &markdown_schema };

static int get_markdown(struct call *call, const void *in, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	(void)in;
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	json_t *value = frame_js(page.tab, NULL, "markdown", NULL, &page.wait, &cause);
	if (!value)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, page_decode(call, &markdown_schema, value), err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/markdown", get_markdown, NULL, &markdown_data,
	  "Read the page as Markdown",
	  "The readable content of the page in the active tab. Prefer it to the HTML: it is a small "
	  "part of that." },
};
const struct route_group browser_page_markdown_group = { "browser", "The page's content.", routes,
							 COUNT(routes) };
