/* Tools for the screen as a person has it: what it looks like, mouse and keyboard. */
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "mcp/bridge.h"
#include "mcp/browser_tools.h"

/* ---- pictures ---- */

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
	const struct picture_size *image = &answer->image, *screen = &answer->screen;
	if (image->width && screen->width > image->width)
		browser_said(use,
			     "%s, %dx%d pixels of a screen of %dx%d: multiply coordinates of the "
			     "picture by %.4g",
			     what, image->width, image->height, screen->width, screen->height,
			     (double)screen->width / image->width);
	else if (image->width)
		browser_said(use, "%s, %dx%d pixels", what, image->width, image->height);
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
		if (tool_picture(use, route, args, &answer, err) < 0)
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
