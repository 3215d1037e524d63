#include "browser/capture.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/cdp_params.h"
#include "browser/elements.h"
#include "browser/navigate.h"
#include "browser/tab.h"

enum { PIECE = 256 << 10, QUALITY = 80 };

struct area {
	double x, y, width, height;
};

static double number(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));
	return isfinite(value) ? value : 0;
}

static struct area read_area(const json_t *box)
{
	return (struct area){ number(box, "x"), number(box, "y"), number(box, "width"),
			      number(box, "height") };
}

/* ---- what of the page ---- */

static bool is_of_element(const struct capture *capture)
{
	return capture->selector || capture->index != INT_ABSENT;
}

static int ask_element(struct tab *tab, const struct capture *capture, struct area *ret,
		       const struct wait *wait, struct err *err)
{
	int64_t numbering = 0;
	const bool by_index = capture->index != INT_ABSENT;
	if (by_index && elements_known(tab, capture->index, &numbering, wait, err) < 0)
		return -1;
	json_t *args = json_pack("{s:s*, s:I}", "selector", capture->selector, "timeout_ms",
				 (json_int_t)capture->timeout_ms);
	if (by_index)
		json_object_update_new(args,
				       json_pack("{s:I, s:I}", "index", (json_int_t)capture->index,
						 "numbering", (json_int_t)numbering));
	json_t *box = frame_js(tab, NULL, "capture_box", args, wait, err);
	*ret = read_area(box);
	json_decref(box);
	return box ? 0 : -1;
}

static int ask_page(struct tab *tab, bool whole, struct area *ret, const struct wait *wait,
		    struct err *err)
{
	json_t *metrics = tab_call(tab, "Page.getLayoutMetrics", NULL, wait, err);
	const json_t *view = json_object_get(metrics, "cssLayoutViewport");
	if (!metrics)
		return -1;
	*ret = whole ? read_area(json_object_get(metrics, "cssContentSize"))
		     : (struct area){ number(view, "pageX"), number(view, "pageY"),
				      number(view, "clientWidth"), number(view, "clientHeight") };
	json_decref(metrics);
	return 0;
}

/* With its scrollbars, which a picture of it shows. */
static int ask_view(struct tab *tab, struct area *ret, const struct wait *wait, struct err *err)
{
	struct err ignored;
	if (ask_page(tab, false, ret, wait, err) < 0)
		return -1;
	json_t *view = frame_js(tab, NULL, "capture_view", json_object(), wait, &ignored);
	ret->width = fmax(ret->width, number(view, "width"));
	ret->height = fmax(ret->height, number(view, "height"));
	json_decref(view);
	return 0;
}

static int measure(struct tab *tab, const struct capture *capture, struct area *ret,
		   const struct wait *wait, struct err *err)
{
	return is_of_element(capture) ? ask_element(tab, capture, ret, wait, err)
	       : capture->full_page   ? ask_page(tab, true, ret, wait, err)
				      : ask_view(tab, ret, wait, err);
}

static bool is_in_view(struct tab *tab, const struct area *area, const struct wait *wait)
{
	struct area view;
	return ask_page(tab, false, &view, wait, NULL) == 0 && area->x >= view.x &&
	       area->y >= view.y && area->x + area->width <= view.x + view.width &&
	       area->y + area->height <= view.y + view.height;
}

/* Scrollbars take room, which what is measured depends on. */
static void hide_bars(struct tab *tab, bool hidden, const struct wait *wait)
{
	struct err ignored;
	json_decref(frame_js(tab, NULL, "capture_bars", json_pack("{s:b}", "hidden", hidden), wait,
			     &ignored));
}

/* *ret_beyond: it is not all in view, and scrollbars are hidden until the picture has been taken. */
static int find_area(struct tab *tab, const struct capture *capture, struct area *ret,
		     bool *ret_beyond, const struct wait *wait, struct err *err)
{
	*ret_beyond = capture->full_page && !is_of_element(capture);
	if (!*ret_beyond && measure(tab, capture, ret, wait, err) < 0)
		return -1;
	if (is_of_element(capture))
		*ret_beyond = !is_in_view(tab, ret, wait);
	if (!*ret_beyond)
		return 0;
	hide_bars(tab, true, wait);
	return measure(tab, capture, ret, wait, err);
}

static double at_most(double value, double max)
{
	return value > max ? max : value;
}

/* Whole pixels, and not too many of them. */
static void cut_area(struct area *area)
{
	double right = ceil(area->x + area->width), bottom = ceil(area->y + area->height);
	area->x = floor(area->x);
	area->y = floor(area->y);
	area->width = at_most(right - area->x, CAPTURE_SIDE_MAX);
	area->height = at_most(bottom - area->y, CAPTURE_SIDE_MAX);
	if (area->width > 0)
		area->height = at_most(area->height, floor(CAPTURE_PIXELS_MAX / area->width));
}

static void take_part(const struct capture *capture, struct area *area)
{
	if (capture->width != INT_ABSENT)
		area->width = at_most(area->width, (double)capture->width);
	if (capture->height != INT_ABSENT)
		area->height = at_most(area->height, (double)capture->height);
}

static double scale_of(const struct capture *capture, const struct area *area)
{
	double longer = fmax(area->width, area->height);
	return capture->max_size == INT_ABSENT ? 1 : at_most((double)capture->max_size / longer, 1);
}

/* ---- the picture ---- */

static json_t *screenshot_params(const struct capture *capture, const struct area *area,
				 bool beyond, double scale)
{
	bool some = beyond || is_of_element(capture) || scale < 1 || capture->width != INT_ABSENT ||
		    capture->height != INT_ABSENT;
	json_t *params = json_pack("{s:s, s:b, s:b}", "format", capture->format,
				   "captureBeyondViewport", beyond, "optimizeForSpeed", 1);
	if (strcmp(capture->format, "png") != 0)
		json_object_set_new(params, "quality",
				    json_integer(capture->quality == INT_ABSENT
							 ? QUALITY
							 : capture->quality));
	if (some)
		json_object_set_new(params, "clip",
				    json_pack("{s:f, s:f, s:f, s:f, s:f}", "x", area->x, "y",
					      area->y, "width", area->width, "height", area->height,
					      "scale", scale));
	return params;
}

static int take(struct tab *tab, json_t *params, struct buf *to, const struct wait *wait,
		struct err *err)
{
	json_t *answer = tab_call(tab, "Page.captureScreenshot", params, wait, err);
	const json_t *data = json_object_get(answer, "data");
	int result = answer ? base64_decode(to, cdp_text(answer, "data"), json_string_length(data))
			    : -1;
	if (answer && (result < 0 || !to->len))
		result = err_set(err, ERR_INTERNAL,
				 "the browser sent no picture, or one that exceeds %d MiB",
				 CAPTURE_FILE_MAX >> 20);
	json_decref(answer);
	return result;
}

static int take_area(struct tab *tab, const struct capture *capture, struct area area, bool beyond,
		     struct captured *ret, const struct wait *wait, struct err *err)
{
	ret->page_width = (int64_t)ceil(area.width);
	ret->page_height = (int64_t)ceil(area.height);
	take_part(capture, &area);
	const struct area wanted = area;
	cut_area(&area);
	ret->cut = area.width + 1 < wanted.width || area.height + 1 < wanted.height;
	if (area.width < 1 || area.height < 1)
		return err_set(err, ERR_CONFLICT, "there is nothing to capture: it has no size");
	ret->scale = scale_of(capture, &area);
	ret->width = (int64_t)(area.width * ret->scale + 0.5);
	ret->height = (int64_t)(area.height * ret->scale + 0.5);
	return take(tab, screenshot_params(capture, &area, beyond, ret->scale), &ret->file, wait,
		    err);
}

static int capture_once(struct tab *tab, const struct capture *capture, struct captured *ret,
			const struct wait *wait, struct err *err)
{
	struct area area;
	bool beyond;
	if (capture->marks && elements_mark(tab, wait, err) < 0)
		return -1;
	int result = find_area(tab, capture, &area, &beyond, wait, err);
	if (result == 0)
		result = take_area(tab, capture, area, beyond, ret, wait, err);
	if (beyond)
		hide_bars(tab, false, wait);
	if (capture->marks)
		elements_unmark(tab, wait);
	return result;
}

/* Once more if the page went to another document meanwhile. */
int capture_page(struct tab *tab, const struct capture *capture, struct captured *ret,
		 const struct wait *wait, struct err *err)
{
	uint64_t documents;
	int result;
	do {
		documents = navigate_documents(tab);
		result = capture_once(tab, capture, ret, wait, err);
	} while (result < 0 && err->code == ERR_CONFLICT && navigate_documents(tab) != documents &&
		 clock_ms() < wait->until_ms);
	return result;
}

/* ---- PDF ---- */

static json_t *print_params(const struct pdf_page *page)
{
	json_t *params = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:s}",
				   "paperWidth", page->width, "paperHeight", page->height,
				   "marginTop", page->margin, "marginBottom", page->margin,
				   "marginLeft", page->margin, "marginRight", page->margin, "scale",
				   page->scale, "landscape", page->landscape, "printBackground",
				   page->background, "transferMode", "ReturnAsStream");
	if (page->pages)
		json_object_set_new(params, "pageRanges", json_string(page->pages));
	return params;
}

/* 1: there is more. */
static int pass_piece(struct tab *tab, const char *stream, pdf_write_fn *write, void *arg,
		      const struct wait *wait, struct err *err)
{
	auto_buf struct buf bytes = BUF(2 * PIECE);
	json_t *params = json_pack("{s:s, s:i}", "handle", stream, "size", PIECE);
	json_t *piece = tab_call(tab, "IO.read", params, wait, err);
	const json_t *data = json_object_get(piece, "data");
	const char *text = cdp_text(piece, "data");
	size_t len = json_string_length(data);
	int result = piece ? 0 : -1;
	if (piece && cdp_true(piece, "base64Encoded"))
		result = base64_decode(&bytes, text, len);
	else if (piece)
		result = buf_add(&bytes, text, len);
	if (piece && result < 0)
		(void)err_set(err, ERR_INTERNAL, "the browser sent a PDF that cannot be read");
	if (result == 0 && bytes.len)
		result = write(arg, bytes.data, bytes.len, err);
	if (result == 0)
		result = !cdp_true(piece, "eof");
	json_decref(piece);
	return result;
}

int capture_pdf(struct tab *tab, const struct pdf_page *page, pdf_write_fn *write, void *arg,
		const struct wait *wait, struct err *err)
{
	json_t *answer = tab_call(tab, "Page.printToPDF", print_params(page), wait, err);
	const char *stream = cdp_text(answer, "stream");
	int more = answer ? 1 : -1;
	while (more > 0)
		more = pass_piece(tab, stream, write, arg, wait, err);
	if (answer)
		(void)tab_ask(tab, "IO.close", json_pack("{s:s}", "handle", stream), wait, NULL);
	json_decref(answer);
	return more;
}
