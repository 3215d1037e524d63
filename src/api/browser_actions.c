/* What a person does at the desktop, one action at a time: each kind is a variant of the request, with a
 * function that does it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/chromium.h"
#include "desktop/display.h"
#include "desktop/gui.h"
#include "desktop/keys.h"
#include "net/call.h"
#include "service/service.h"

enum {
	START_MS = 60000, /* for a desktop that does not run yet */
	ACTION_MS = 120000,
	TEXT_MAX = 1000000,
	WAIT_MAX = 3600,
	SCROLL_MAX = 100, /* steps of the wheel */
};

/* ---- where ---- */

struct screen_point {
	double x, y;
};
static const struct field point_fields[] = {
	NUM(screen_point, x, REQUIRED, "Pixels from the left."),
	NUM(screen_point, y, REQUIRED, "Pixels from the top."),
};
static const struct schema move_schema = SCHEMA(screen_point, "MoveToAction", point_fields);
static const struct schema drag_schema = SCHEMA(screen_point, "DragToAction", point_fields);

struct screen_offset {
	double x_offset, y_offset;
};
static const struct field offset_fields[] = {
	NUM(screen_offset, x_offset, REQUIRED, "Pixels to the right of where the pointer is."),
	NUM(screen_offset, y_offset, REQUIRED, "Pixels below where the pointer is."),
};
static const struct schema move_by_schema = SCHEMA(screen_offset, "MoveRelAction", offset_fields);
static const struct schema drag_by_schema = SCHEMA(screen_offset, "DragRelAction", offset_fields);

struct screen_pixel {
	int x, y;
};

static int pixel_of(const struct gui_place *place, double x, double y, struct screen_pixel *ret,
		    struct err *err)
{
	x = round(x);
	y = round(y);
	if (!(x >= 0 && y >= 0 && x < place->width && y < place->height))
		return err_set(err, ERR_INVALID,
			       "(%g, %g) is outside the screen of %dx%d pixels: expected x from 0 "
			       "to %d and y from 0 to %d",
			       x, y, place->width, place->height, place->width - 1,
			       place->height - 1);
	*ret = (struct screen_pixel){ (int)x, (int)y };
	return 0;
}

static int clamp(double at, int size)
{
	return !(at > 0) ? 0 : at < size ? (int)at : size - 1;
}

static int pixel_by(struct gui *gui, const struct screen_offset *by, struct screen_pixel *ret,
		    struct err *err)
{
	struct gui_place place;
	if (gui_where(gui, &place, err) < 0)
		return -1;
	*ret = (struct screen_pixel){ clamp(round(place.x + by->x_offset), place.width),
				      clamp(round(place.y + by->y_offset), place.height) };
	return 0;
}

static int pixel_at(struct gui *gui, const struct screen_point *at, struct screen_pixel *ret,
		    struct err *err)
{
	struct gui_place place;
	if (gui_where(gui, &place, err) < 0)
		return -1;
	return pixel_of(&place, isnan(at->x) ? place.x : at->x, isnan(at->y) ? place.y : at->y, ret,
			err);
}

static int do_move(struct gui *gui, const void *in, struct err *err)
{
	struct screen_pixel to = { 0, 0 };
	return pixel_at(gui, in, &to, err) < 0 ? -1 : gui_move(gui, to.x, to.y, err);
}

static int do_move_by(struct gui *gui, const void *in, struct err *err)
{
	struct screen_pixel to = { 0, 0 };
	return pixel_by(gui, in, &to, err) < 0 ? -1 : gui_move(gui, to.x, to.y, err);
}

static int do_drag(struct gui *gui, const void *in, struct err *err)
{
	struct screen_pixel to = { 0, 0 };
	return pixel_at(gui, in, &to, err) < 0 ? -1 : gui_drag(gui, to.x, to.y, err);
}

static int do_drag_by(struct gui *gui, const void *in, struct err *err)
{
	struct screen_pixel to = { 0, 0 };
	return pixel_by(gui, in, &to, err) < 0 ? -1 : gui_drag(gui, to.x, to.y, err);
}

/* ---- the buttons ---- */

static const char *const buttons[] = { "left", "right", "middle", NULL };

static enum gui_button button_of(const char *name)
{
	return !strcmp(name, "left") ? GUI_LEFT : !strcmp(name, "right") ? GUI_RIGHT : GUI_MIDDLE;
}

struct mouse_click {
	struct screen_point at; /* first */
	const char *button;
	int64_t num_clicks;
};
#define CLICK_AT(m, h)                                                                            \
	{                                                                                         \
		.name = #m, .type = T_NUM, .at = offsetof(struct mouse_click, at.m), .help = (h), \
	}
static const struct field click_fields[] = {
	CLICK_AT(x, "Pixels from the left; where the pointer is when absent."),
	CLICK_AT(y, "Pixels from the top; where the pointer is when absent."),
	ENUM(mouse_click, button, 0, "Which button.", .choices = buttons, .def = "left"),
	INT(mouse_click, num_clicks, MIN | MAX, "How often.", .def = "1", .min = 1, .max = 3),
};
static const struct schema click_schema = SCHEMA(mouse_click, "ClickAction", click_fields);
static const struct schema right_schema = { .name = "RightClickAction",
					    .size = sizeof(struct mouse_click),
					    .fields = click_fields,
					    .count = 2 };
static const struct schema double_schema = { .name = "DoubleClickAction",
					     .size = sizeof(struct mouse_click),
					     .fields = click_fields,
					     .count = 2 };

static int click(struct gui *gui, const struct mouse_click *in, enum gui_button button, int times,
		 struct err *err)
{
	return do_move(gui, &in->at, err) < 0 ? -1 : gui_click(gui, button, times, err);
}

static int do_click(struct gui *gui, const void *in, struct err *err)
{
	const struct mouse_click *request = in;
	return click(gui, request, button_of(request->button), (int)request->num_clicks, err);
}

static int do_right_click(struct gui *gui, const void *in, struct err *err)
{
	return click(gui, in, GUI_RIGHT, 1, err);
}

static int do_double_click(struct gui *gui, const void *in, struct err *err)
{
	return click(gui, in, GUI_LEFT, 2, err);
}

struct button_action {
	const char *button;
};
static const struct field button_fields[] = {
	ENUM(button_action, button, 0, "Which button.", .choices = buttons, .def = "left"),
};
static const struct schema down_schema = SCHEMA(button_action, "MouseDownAction", button_fields);
static const struct schema up_schema = SCHEMA(button_action, "MouseUpAction", button_fields);

static int do_mouse_down(struct gui *gui, const void *in, struct err *err)
{
	return gui_press(gui, button_of(((const struct button_action *)in)->button), true, err);
}

static int do_mouse_up(struct gui *gui, const void *in, struct err *err)
{
	return gui_press(gui, button_of(((const struct button_action *)in)->button), false, err);
}

struct wheel_action {
	int64_t dx, dy;
};
static const struct field wheel_fields[] = {
	INT(wheel_action, dx, 0,
	    "Steps of the wheel to the right, to the left when negative; at most 100.", .def = "0"),
	INT(wheel_action, dy, 0,
	    "Steps of the wheel upwards, downwards when negative; at most 100.", .def = "0"),
};
static const struct schema wheel_schema = SCHEMA(wheel_action, "ScrollAction", wheel_fields);

static int roll(struct gui *gui, int64_t steps, enum gui_button back, enum gui_button forth,
		struct err *err)
{
	int64_t most = steps < -SCROLL_MAX ? -SCROLL_MAX : steps > SCROLL_MAX ? SCROLL_MAX : steps;
	return gui_click(gui, most < 0 ? back : forth, (int)(most < 0 ? -most : most), err);
}

static int do_scroll(struct gui *gui, const void *in, struct err *err)
{
	const struct wheel_action *request = in;
	if (roll(gui, request->dy, GUI_DOWN, GUI_UP, err) < 0)
		return -1;
	return roll(gui, request->dx, GUI_WHEEL_LEFT, GUI_WHEEL_RIGHT, err);
}

/* ---- the keyboard ---- */

struct typing_action {
	struct text text;
	bool use_clipboard;
};
static const struct field typing_fields[] = {
	TEXT(typing_action, text, REQUIRED, "What to type.", .min_len = 1, .max_len = TEXT_MAX),
	BOOL(typing_action, use_clipboard, 0,
	     "Paste it where that gives the same: faster, and independent of the keyboard's layout. The "
	     "clipboard is afterwards as it was before.",
	     .def = "true"),
};
static const struct schema typing_schema = SCHEMA(typing_action, "TypingAction", typing_fields);

static int do_typing(struct gui *gui, const void *in, struct err *err)
{
	const struct typing_action *request = in;
	return gui_type(gui, request->text.data, request->text.len, request->use_clipboard, err);
}

#define KEY_HELP                                                                           \
	"Name of a key, of the DOM or of X11 (Enter, Return, ArrowLeft, Left, F5, KeyA), " \
	"an alias (ctrl, esc), or one character."
struct key_action {
	const char *key;
};
static const struct field key_fields[] = { STR(key_action, key, REQUIRED, KEY_HELP, .min_len = 1,
					       .max_len = 100) };
static const struct schema press_schema = SCHEMA(key_action, "PressAction", key_fields);
static const struct schema key_down_schema = SCHEMA(key_action, "KeyDownAction", key_fields);
static const struct schema key_up_schema = SCHEMA(key_action, "KeyUpAction", key_fields);

struct hotkey_action {
	struct list keys;
};
static const struct field hotkey_fields[] = {
	LIST(hotkey_action, keys, REQUIRED, "Pressed in that order, released in the other one.",
	     .item = T_STR, .min_len = 1, .max_len = GUI_KEYS_MAX),
};
static const struct schema hotkey_schema = SCHEMA(hotkey_action, "HotkeyAction", hotkey_fields);

struct key_combination {
	uint32_t keysyms[GUI_KEYS_MAX];
	size_t count;
};

static int add_key(struct key_combination *all, const char *name, struct err *err)
{
	uint32_t keysym = key_named(name, err);
	if (!keysym)
		return -1;
	if (all->count == COUNT(all->keysyms))
		return err_set(err, ERR_INVALID, "at most %d keys at a time", GUI_KEYS_MAX);
	all->keysyms[all->count++] = keysym;
	return 0;
}

/* A name may also be of several keys: "ctrl+shift+t". */
static int add_keys(struct key_combination *all, const char *name, struct err *err)
{
	char part[100];
	struct err unknown;
	if (!strchr(name, '+') || key_named(name, &unknown))
		return add_key(all, name, err);
	for (const char *at = name; *at;) {
		size_t len = strcspn(at + 1, "+") + 1; /* "+" itself is a key, too */
		snprintf(part, sizeof part, "%.*s", (int)len, at);
		if (add_key(all, part, err) < 0)
			return -1;
		at += len;
		at += *at == '+';
	}
	return 0;
}

/* Ctrl and C means Ctrl and the key that has a C, not Shift with it. */
static void lower(struct key_combination *all)
{
	for (size_t i = 0; i < all->count && all->count > 1; i++)
		if (all->keysyms[i] >= 'A' && all->keysyms[i] <= 'Z')
			all->keysyms[i] += 'a' - 'A';
}

static int press(struct gui *gui, const void *in, bool down, bool up, struct err *err)
{
	struct key_combination all = { .count = 0 };
	if (add_keys(&all, ((const struct key_action *)in)->key, err) < 0)
		return -1;
	lower(&all);
	return gui_keys(gui, all.keysyms, all.count, down, up, err);
}

static int do_press(struct gui *gui, const void *in, struct err *err)
{
	return press(gui, in, true, true, err);
}

static int do_key_down(struct gui *gui, const void *in, struct err *err)
{
	return press(gui, in, true, false, err);
}

static int do_key_up(struct gui *gui, const void *in, struct err *err)
{
	return press(gui, in, false, true, err);
}

static int do_hotkey(struct gui *gui, const void *in, struct err *err)
{
	const struct list *keys = &((const struct hotkey_action *)in)->keys;
	struct key_combination all = { .count = 0 };
	for (size_t i = 0; i < keys->count; i++)
		if (add_keys(&all, ((const char *const *)keys->items)[i], err) < 0)
			return -1;
	lower(&all);
	return gui_keys(gui, all.keysyms, all.count, true, true, err);
}

/* ---- time ---- */

struct pause_action {
	double duration;
};
static const struct field pause_fields[] = {
	NUM(pause_action, duration, REQUIRED | ABOVE | MAX, "Seconds.", .min = 0, .max = WAIT_MAX),
};
static const struct schema wait_schema = SCHEMA(pause_action, "WaitAction", pause_fields);

/* Nobody else has to wait for it. */
static int do_wait(struct call *call, const struct pause_action *in, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + (int64_t)(in->duration * 1000));
	enum wake wake = wait_fd(&wait, -1, 0);
	return wake == WAKE_TIMEOUT ? 0 : wake_err(wake, err);
}

/* ---- all of them ---- */

static const struct variant action_variants[] = {
	{ "MOVE_TO", &move_schema, "Move the pointer." },
	{ "MOVE_REL", &move_by_schema, "Move the pointer from where it is." },
	{ "CLICK", &click_schema, "Click." },
	{ "MOUSE_DOWN", &down_schema, "Press a button of the mouse, and hold it." },
	{ "MOUSE_UP", &up_schema, "Release it." },
	{ "RIGHT_CLICK", &right_schema, "Click the right button." },
	{ "DOUBLE_CLICK", &double_schema, "Click twice." },
	{ "DRAG_TO", &drag_schema, "Drag what is under the pointer with the left button." },
	{ "DRAG_REL", &drag_by_schema, "Drag it from where the pointer is." },
	{ "SCROLL", &wheel_schema, "Turn the wheel." },
	{ "TYPING", &typing_schema, "Type a text, in any script." },
	{ "PRESS", &press_schema, "Press a key, and release it." },
	{ "KEY_DOWN", &key_down_schema, "Press a key, and hold it." },
	{ "KEY_UP", &key_up_schema, "Release it." },
	{ "HOTKEY", &hotkey_schema, "Press several keys together." },
	{ "WAIT", &wait_schema, "Do nothing for a while." },
};
static const struct schema action_schema = TAGGED("Action", "action_type", action_variants);

static const struct {
	const char *tag;
	int (*run)(struct gui *gui, const void *in, struct err *err);
} actions[] = {
	{ "MOVE_TO", do_move },
	{ "MOVE_REL", do_move_by },
	{ "CLICK", do_click },
	{ "MOUSE_DOWN", do_mouse_down },
	{ "MOUSE_UP", do_mouse_up },
	{ "RIGHT_CLICK", do_right_click },
	{ "DOUBLE_CLICK", do_double_click },
	{ "DRAG_TO", do_drag },
	{ "DRAG_REL", do_drag_by },
	{ "SCROLL", do_scroll },
	{ "TYPING", do_typing },
	{ "PRESS", do_press },
	{ "KEY_DOWN", do_key_down },
	{ "KEY_UP", do_key_up },
	{ "HOTKEY", do_hotkey },
};

struct action_done {
	const char *status, *action_performed;
};
static const struct field done_fields[] = {
	STR(action_done, status, REQUIRED, "\"success\"."),
	STR(action_done, action_performed, REQUIRED, "Which it was."),
};
static const struct schema done_schema = SCHEMA(action_done, "ActionData", done_fields);
static const struct field done_data = { .type = T_OBJ, .of = &done_schema };

static int run_action(struct gui *gui, const struct tagged *action, struct err *err)
{
	for (size_t i = 0; i < COUNT(actions); i++)
		if (!strcmp(actions[i].tag, action->tag))
			return actions[i].run(gui, action->value, err);
	return err_set(err, ERR_NOT_IMPLEMENTED, "unknown action '%s'", action->tag);
}

static int act(struct call *call, const struct tagged *action, struct err *err)
{
	const struct wait start = call_until(call, clock_ms() + START_MS);
	struct service_run *run = browser_show(&start, err) < 0 ? NULL : display_use(&start, err);
	if (!run)
		return -1;
	const struct wait wait = call_until(call, clock_ms() + ACTION_MS);
	struct gui *gui = display_gui(run);
	int result = gui_begin(gui, &wait, err);
	if (result == 0) {
		result = run_action(gui, action, err);
		gui_end(gui);
	}
	if (result < 0 && err->code != ERR_INVALID)
		display_failed(run);
	service_release(run);
	return result;
}

static int do_action(struct call *call, const void *in, struct err *err)
{
	const struct tagged *action = in;
	bool waits = !strcmp(action->tag, "WAIT");
	if ((waits ? do_wait(call, action->value, err) : act(call, action, err)) < 0)
		return -1;
	const struct action_done done = { "success", action->tag };
	call->extra = &done;
	return call_reply(call, &done, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/actions", do_action, &action_schema, &done_data,
	  "Use the mouse and keyboard of the desktop",
	  "As a person would, whatever window is there. Actions are done one at a time, in order.",
	  .extra = &done_schema },
};
const struct route_group browser_actions_group = { "browser", "A browser on a desktop.", routes,
						   COUNT(routes) };
