/* Tools for the screen as a person has it: what it looks like, mouse and keyboard. */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "mcp/bridge.h"
#include "mcp/browser_tools.h"

/* ---- pictures ---- */

enum { PAGE_SIDE_MAX = 7900 };                  /* models refuse pictures above 8000 */
enum { PNG_MAX = 1 << 20, FILE_MAX = 3 << 20 }; /* models take 5 MB in base64, some clients less */

/* Ways to ask for it, until it is small enough. */
static const struct picture_try {
	const char *format;
	int quality;
} tries[] = { { NULL, 0 }, { "jpeg", 80 }, { "jpeg", 40 } };

static bool is_small(const struct bridge_answer *answer, bool asked)
{
	bool png = !strcmp(answer->type, "image/png");
	return answer->body.len <= (png && !asked ? PNG_MAX : FILE_MAX);
}

static void put_picture(struct tool_use *use, const char *what, const struct bridge_answer *answer)
{
	const struct picture_size *image = &answer->image, *whole = &answer->whole;
	const char *gap = *answer->notice ? "\n" : "";
	if (answer->scale < 1)
		browser_said(use,
			     "%s, made smaller: %dx%d pixels of %dx%d. Multiply coordinates of the "
			     "picture by %.4g.%s%s",
			     what, image->width, image->height, whole->width, whole->height,
			     1 / answer->scale, gap, answer->notice);
	else if (image->width)
		browser_said(use, "%s, %dx%d pixels%s%s", what, image->width, image->height, gap,
			     answer->notice);
	else
		browser_said(use, "%s", what);
	tool_image(use, answer->type, answer->body.data, answer->body.len);
}

int browser_picture(struct tool_use *use, const char *route, json_t *args, const char *what,
		    struct err *err)
{
	bool asked = json_object_get(args, "format"), done = false;
	for (size_t i = 0; i < COUNT(tries) && !done && !use->failed; i++) {
		struct bridge_answer answer;
		if (tries[i].format)
			json_object_update_new(args,
					       json_pack("{s:s,s:i}", "format", tries[i].format,
							 "quality", tries[i].quality));
		if (tool_file(use, route, args, "image/", &answer, err) < 0)
			break;
		done = is_small(&answer, asked);
		if (done)
			put_picture(use, what, &answer);
		buf_done(&answer.body);
	}
	if (!done && !use->failed)
		tool_failed(use,
			    "the picture is larger than %d MiB: take one of a part, by selector, "
			    "or without fullPage",
			    FILE_MAX >> 20);
	json_decref(args);
	return 0;
}

/* ---- the page ---- */

static const char *const page_formats[] = { "png", "jpeg", NULL };

struct page_picture {
	const char *name, *selector, *format;
	int64_t index, width, height, max_size;
	bool full_page, highlight;
};
static const struct field page_picture_fields[] = {
	STR(page_picture, name, OPTIONAL, "What to call it, in the text that comes with it.",
	    .max_len = 200),
	STR(page_picture, selector, OPTIONAL, "Of the one element that is wanted.",
	    .max_len = 10000),
	INT(page_picture, index, MIN, "Of the one element that is wanted, by its index.", .min = 0),
	INT(page_picture, width, MIN, "At most so many pixels wide: the rest is left out.",
	    .min = 1),
	INT(page_picture, height, MIN, "At most so many pixels high: the rest is left out.",
	    .min = 1),
	INT(page_picture, max_size, MIN | MAX,
	    "Pixels of the longer side: what is larger is made smaller, and the text says by how much.",
	    .def = "7900", .min = 64, .max = 16384),
	NAMED("fullPage", BOOL, page_picture, full_page, OPTIONAL,
	      "The whole page, not only what is in view.", .def = "false", .alias = "full_page"),
	BOOL(page_picture, highlight, OPTIONAL,
	     "Frame what can be clicked or filled in, each with its index.", .def = "false",
	     .alias = "marks"),
	ENUM(page_picture, format, OPTIONAL, "png or jpeg; png where that is small when absent.",
	     .choices = page_formats),
};
const struct schema page_picture_in = SCHEMA(page_picture, "PageScreenshot", page_picture_fields);

static int take_page(struct tool_use *use, const struct page_picture *request, struct err *err)
{
	bool named = request->name && *request->name;
	const char *what = arena_printf(use->arena, "Screenshot%s%.200s%s of %s", named ? " '" : "",
					named ? request->name : "", named ? "'" : "",
					(request->selector && *request->selector) ||
							request->index != INT_ABSENT
						? "the element"
					: request->full_page ? "the whole page"
							     : "the page's view");
	json_t *args = json_pack("{s:s*,s:s*,s:b,s:b,s:I}", "format", request->format, "selector",
				 request->selector, "full_page", request->full_page, "marks",
				 request->highlight, "max_size", (json_int_t)request->max_size);
	if (request->index != INT_ABSENT)
		json_object_set_new(args, "index", json_integer(request->index));
	if (request->width != INT_ABSENT)
		json_object_set_new(args, "width", json_integer(request->width));
	if (request->height != INT_ABSENT)
		json_object_set_new(args, "height", json_integer(request->height));
	return browser_picture(use, "GET /v1/browser/page/screenshot", args, what, err);
}

int page_picture_tool(struct tool_use *use, const void *in, struct err *err)
{
	return take_page(use, in, err);
}

int view_picture_tool(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	return take_page(use,
			 &(struct page_picture){ .index = INT_ABSENT,
						 .width = INT_ABSENT,
						 .height = INT_ABSENT,
						 .max_size = PAGE_SIDE_MAX },
			 err);
}

struct view_click {
	double x, y;
	struct list factors;
};
static const struct field view_click_fields[] = {
	NUM(view_click, x, REQUIRED, "Pixels from the left of the view."),
	NUM(view_click, y, REQUIRED, "Pixels from its top."),
	LIST(view_click, factors, OPTIONAL,
	     "What the model's coordinates count to, [1000, 1000] for example, where they are not pixels.",
	     .item = T_NUM, .max_len = 2),
};
const struct schema view_click_in = SCHEMA(view_click, "VisionScreenClick", view_click_fields);

/* The size of the page's view; -1 after tool_failed(). */
static int ask_view(struct tool_use *use, double size[2], struct err *err)
{
	json_t *data = tool_ask(use, "GET /v1/browser/info", json_object(), err);
	const json_t *view = json_object_get(data, "page_viewport");
	size[0] = json_number_value(json_object_get(view, "width"));
	size[1] = json_number_value(json_object_get(view, "height"));
	if (data && !(size[0] > 0))
		tool_failed(use, "the page does not say how large its view is: pass pixels, "
				 "without factors");
	json_decref(data);
	return size[0] > 0 ? 0 : -1;
}

int view_click_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct view_click *request = in;
	const double *factors = request->factors.items;
	double at[2] = { request->x, request->y }, size[2];
	if (request->factors.count == 2) {
		if (!(factors[0] > 0 && factors[1] > 0))
			return tool_failed(use, "factors must be greater than 0");
		if (ask_view(use, size, err) < 0)
			return 0;
		at[0] *= size[0] / factors[0];
		at[1] *= size[1] / factors[1];
	}
	json_t *data = tool_ask(use, "POST /v1/browser/page/click",
				json_pack("{s:f,s:f}", "x", at[0], "y", at[1]), err);
	if (data)
		browser_said(use, "Clicked (%g, %g)", at[0], at[1]);
	json_decref(data);
	return 0;
}

/* ---- the screen ---- */

static const char *const formats[] = { "jpeg", "png", NULL };

struct screen_picture {
	const char *format;
	int64_t quality, max_size;
};
static const struct field picture_fields[] = {
	ENUM(screen_picture, format, OPTIONAL, "jpeg is smaller, png exact.", .choices = formats,
	     .def = "jpeg"),
	INT(screen_picture, quality, MIN | MAX, "Of a jpeg.", .def = "80", .min = 1, .max = 100),
	INT(screen_picture, max_size, MIN | MAX,
	    "Pixels of the longer side: what is larger is made smaller, and the text says by how much.",
	    .def = "1568", .min = 64, .max = 4096),
};
const struct schema screen_picture_in = SCHEMA(screen_picture, "GuiScreenshot", picture_fields);

int screen_picture_tool(struct tool_use *use, const void *in, struct err *err)
{
	const struct screen_picture *request = in;
	json_t *args = json_pack("{s:s,s:I}", "format", request->format, "max_size",
				 (json_int_t)request->max_size);
	if (!strcmp(request->format, "jpeg"))
		json_object_set_new(args, "quality", json_integer(request->quality));
	return browser_picture(use, "GET /v1/browser/screenshot", args, "Screenshot of the desktop",
			       err);
}

/* ---- mouse and keyboard ---- */

static const char *const types[] = {
	"CLICK",    "DOUBLE_CLICK", "RIGHT_CLICK", "MOVE_TO", "MOVE_REL", "DRAG_TO",
	"DRAG_REL", "SCROLL",       "TYPING",      "PRESS",   "KEY_DOWN", "KEY_UP",
	"HOTKEY",   "MOUSE_DOWN",   "MOUSE_UP",    "WAIT",    NULL,
};
static const char *const buttons[] = { "left", "right", "middle", NULL };

struct screen_action {
	const char *type, *button, *text, *key;
	double x, y, x_offset, y_offset, duration;
	int64_t num_clicks, dx, dy;
	enum tri use_clipboard;
	struct list keys;
};
static const struct field action_fields[] = {
	NAMED("action_type", ENUM, screen_action, type, REQUIRED, "What to do.", .choices = types),
	NUM(screen_action, x, OPTIONAL,
	    "For CLICK, DOUBLE_CLICK, RIGHT_CLICK, MOVE_TO, DRAG_TO: pixels from the left of the screen; "
	    "clicks are where the pointer is when absent."),
	NUM(screen_action, y, OPTIONAL, "For the same: pixels from the top."),
	NUM(screen_action, x_offset, OPTIONAL, "For MOVE_REL and DRAG_REL: pixels to the right."),
	NUM(screen_action, y_offset, OPTIONAL, "For the same: pixels down."),
	ENUM(screen_action, button, OPTIONAL,
	     "For CLICK, MOUSE_DOWN and MOUSE_UP; left when absent.", .choices = buttons),
	INT(screen_action, num_clicks, OPTIONAL, "For CLICK: 1 to 3."),
	INT(screen_action, dx, OPTIONAL, "For SCROLL: steps of the wheel to the right."),
	INT(screen_action, dy, OPTIONAL,
	    "For SCROLL: steps of the wheel upwards; negative scrolls down."),
	STR(screen_action, text, OPTIONAL, "For TYPING."),
	TRI(screen_action, use_clipboard, OPTIONAL, "For TYPING: paste it; true when absent."),
	STR(screen_action, key, OPTIONAL,
	    "For PRESS, KEY_DOWN and KEY_UP: Enter, Tab, ArrowLeft, F5, a, ctrl …"),
	LIST(screen_action, keys, OPTIONAL, "For HOTKEY: [\"ctrl\", \"c\"].", .item = T_STR),
	NUM(screen_action, duration, OPTIONAL, "For WAIT: seconds."),
};
static const struct schema action_schema = SCHEMA(screen_action, "GuiAction", action_fields);

struct screen_action_call {
	const struct screen_action *action;
};
static const struct field call_fields[] = {
	OBJ(screen_action_call, action, OPTIONAL,
	    "The action, such as {\"action_type\": \"CLICK\", "
	    "\"x\": 100, \"y\": 200}.",
	    .of = &action_schema),
};
const struct schema screen_action_in = SCHEMA(screen_action_call, "GuiExecuteAction", call_fields);

/* The route knows what each type needs. The members may also stand among the arguments themselves. */
int screen_action_tool(struct tool_use *use, const void *in, struct err *err)
{
	const json_t *action = json_object_get(use->args, "action");
	(void)in;
	return tool_route(use, "POST /v1/browser/actions",
			  json_deep_copy(json_is_object(action) ? action : use->args), err);
}
