/* What the page looks like, without the browser around it. */
#include <string.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/capture.h"
#include "net/call.h"

enum { SELECTOR_MAX = 10000 };

struct page_screenshot {
	bool full_page, marks;
	const char *format, *selector;
	int64_t index, quality, max_size, width, height;
	double timeout;
};
static const struct field screenshot_fields[] = {
	BOOL(page_screenshot, full_page, QUERY,
	     "The whole page, not only what is scrolled into view; at most 16,384 pixels each way and "
	     "32 million in all.",
	     .def = "false"),
	STR(page_screenshot, format, QUERY, "png, jpeg (also jpg) or webp.", .def = "png",
	    .max_len = 20),
	INT(page_screenshot, quality, QUERY, "Of a JPEG or WebP, 0 to 100; 80 when absent."),
	STR(page_screenshot, selector, QUERY,
	    "Only this element, scrolled into view; the first that matches.",
	    .max_len = SELECTOR_MAX),
	INT(page_screenshot, index, QUERY | MIN,
	    "Only the element of this index, as /v1/browser/page/elements lists it.", .min = 0),
	BOOL(page_screenshot, marks, QUERY,
	     "With a frame around each element that can be used, and its index: the one that "
	     "/v1/browser/page/elements lists and that clicks take.",
	     .def = "false", .alias = "highlight"),
	INT(page_screenshot, max_size, QUERY | MIN,
	    "Pixels that the longer side may have: a larger picture is made smaller, and x-image-scale "
	    "says by how much.",
	    .min = 1),
	INT(page_screenshot, width, QUERY | MIN, "At most so wide: the rest is left out.",
	    .min = 1),
	INT(page_screenshot, height, QUERY | MIN, "At most so high: the rest is left out.",
	    .min = 1),
	NUM(page_screenshot, timeout, QUERY | MIN | MAX, "Seconds for that to appear.", .def = "10",
	    .min = 0, .max = 300),
};
static const struct schema screenshot_schema =
	SCHEMA(page_screenshot, "PageScreenshotQuery", screenshot_fields);

static const struct format {
	const char *name, *format, *type;
} formats[] = { { "png", "png", "image/png" },
		{ "jpeg", "jpeg", "image/jpeg" },
		{ "jpg", "jpeg", "image/jpeg" },
		{ "webp", "webp", "image/webp" } };

static const struct format *find_format(const char *name, struct err *err)
{
	for (size_t i = 0; i < COUNT(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	err_set(err, ERR_INVALID, "unknown format '%s': expected png, jpeg or webp", name);
	return NULL;
}

/* What is missing at the end, in words; NULL: nothing. */
static const char *notice(struct call *call, const struct captured *picture)
{
	if (!picture->cut)
		return NULL;
	return arena_printf(
		call->arena,
		"cut to %lldx%lld of %lldx%lld pixels: scroll, and take the rest in parts",
		(long long)picture->width, (long long)picture->height,
		(long long)picture->page_width, (long long)picture->page_height);
}

static const char *digits(struct call *call, int64_t value)
{
	return arena_printf(call->arena, "%lld", (long long)value);
}

static int send_picture(struct call *call, const char *type, const struct captured *picture,
			struct err *err)
{
	const char *cut = notice(call, picture);
	const struct answer answer = {
		200, type, (int64_t)picture->file.len,
		.headers = { { "x-image-width", digits(call, picture->width) },
			     { "x-image-height", digits(call, picture->height) },
			     { "x-page-width", digits(call, picture->page_width) },
			     { "x-page-height", digits(call, picture->page_height) },
			     { "x-image-scale", arena_printf(call->arena, "%.6g", picture->scale) },
			     { "Cache-Control", "no-store" },
			     { "x-image-notice", cut } },
		.header_count = cut ? 7 : 6
	};
	if (call->sink->begin(call->sink, &answer, err) < 0)
		return -1;
	return call->sink->write(call->sink, picture->file.data, picture->file.len, err);
}

static int take_screenshot(struct call *call, const void *in, struct err *err)
{
	const struct page_screenshot *request = in;
	const struct format *format = find_format(request->format, err);
	struct page_call page;
	if (!format)
		return -1;
	if (request->quality != INT_ABSENT && (request->quality < 0 || request->quality > 100))
		return err_set(err, ERR_INVALID, "invalid quality %lld: expected 0 to 100",
			       (long long)request->quality);
	if (page_begin(call, PAGE_TIMEOUT_MS + (int64_t)(request->timeout * 1000), &page, err) < 0)
		return -1;
	struct captured picture = { .file = BUF(CAPTURE_FILE_MAX) };
	const struct capture capture = { .format = format->format,
					 .quality = request->quality,
					 .full_page = request->full_page,
					 .marks = request->marks,
					 .selector = request->selector && *request->selector
							     ? request->selector
							     : NULL,
					 .index = request->index,
					 .timeout_ms = (int64_t)(request->timeout * 1000),
					 .max_size = request->max_size,
					 .width = request->width,
					 .height = request->height };
	int result = capture_page(page.tab, &capture, &picture, &page.wait, err);
	if (result == 0)
		result = send_picture(call, format->type, &picture, err);
	buf_done(&picture.file);
	return result;
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/screenshot", take_screenshot, &screenshot_schema, NULL,
	  "Take a screenshot of the page",
	  "Of the page in the active tab, not of the browser's window. The headers x-image-width and "
	  "x-image-height say how large the picture is, x-page-width and x-page-height how large what "
	  "it shows; x-image-notice is there where it had to be cut.",
	  .flags = BARE, .type = "image/png" },
};
const struct route_group browser_page_screenshot_group = { "browser", "Pictures of the page.",
							   routes, COUNT(routes) };
