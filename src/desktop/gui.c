#include "desktop/gui.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/turn.h"
#include "desktop/gui_hand.h"
#include "desktop/keys.h"
#include "desktop/x.h"
#include "desktop/x_protocol.h"

enum {
	FAKE_INPUT = 2,
	LEFT_HELD = 1 << 8, /* in the state of the pointer */
	DRAG_STEPS = 16,
	DRAG_PAUSE_MS = 8, /* between steps: what is dragged wants to see them */
	PRESS_PAUSE_MS = 30,
	CLICK_PAUSE_MS =
		20, /* to Chromium, clicks of the same millisecond are one and the same event */
};

struct gui *gui_new(struct x *x)
{
	struct gui *gui = xcalloc(1, sizeof *gui);
	gui->x = x;
	gui->turn = (struct turn)TURN;
	return gui;
}

static void shut(struct gui *gui)
{
	if (gui->open)
		x_link_done(&gui->link);
	gui->open = false;
}

void gui_free(struct gui *gui)
{
	if (!gui)
		return;
	clipboard_free(gui->clipboard);
	shut(gui);
	free(gui);
}

/* ---- turns ---- */

static int open_link(struct gui *gui, struct err *err)
{
	if (x_open_link(gui->x, &gui->link, gui->wait, err) < 0)
		return -1;
	gui->open = true;
	gui->xtest = x_link_extension(&gui->link, "XTEST", gui->wait);
	if (gui->xtest)
		return 0;
	shut(gui);
	return err_set(err, ERR_UNAVAILABLE, "the X server has no XTEST extension");
}

static int begin(struct gui *gui, struct err *err)
{
	if (gui->open && gui->link.broken)
		shut(gui);
	if (gui->clipboard && clipboard_broken(gui->clipboard)) {
		clipboard_free(gui->clipboard);
		gui->clipboard = NULL;
	}
	if (!gui->open && open_link(gui, err) < 0)
		return -1;
	if (!gui->clipboard)
		gui->clipboard = clipboard_open(gui->x, gui->wait, err);
	return gui->clipboard ? 0 : -1;
}

int gui_begin(struct gui *gui, const struct wait *wait, struct err *err)
{
	if (turn_take(&gui->turn, wait, err) < 0)
		return -1;
	gui->wait = wait;
	if (begin(gui, err) == 0)
		return 0;
	gui_end(gui);
	return -1;
}

void gui_end(struct gui *gui)
{
	gui->wait = NULL;
	turn_give(&gui->turn);
}

/* ---- events ---- */

void gui_fake(struct gui *gui, unsigned type, unsigned detail, unsigned delay_ms, int x, int y)
{
	const uint32_t words[] = { type | detail << 8,
				   delay_ms,
				   gui->link.setup.root,
				   0,
				   0,
				   x_pair((unsigned)x, (unsigned)y),
				   0,
				   0 };
	x_link_put(&gui->link, gui->xtest, FAKE_INPUT, words, COUNT(words));
}

int gui_sync(struct gui *gui, struct err *err)
{
	return x_link_sync(&gui->link, gui->wait, err);
}

/* ---- the pointer ---- */

int gui_where(struct gui *gui, struct gui_place *ret, struct err *err)
{
	struct x_packet packet;
	const uint32_t root = gui->link.setup.root;
	x_link_put(&gui->link, X_GET_GEOMETRY, 0, &root, 1);
	if (x_link_reply(&gui->link, X_PACKET, &packet, gui->wait, err) < 0)
		return -1;
	ret->width = x_get16(packet.data + 16);
	ret->height = x_get16(packet.data + 18);
	x_link_put(&gui->link, X_QUERY_POINTER, 0, &root, 1);
	if (x_link_reply(&gui->link, X_PACKET, &packet, gui->wait, err) < 0)
		return -1;
	ret->x = (int16_t)x_get16(packet.data + 16);
	ret->y = (int16_t)x_get16(packet.data + 18);
	ret->state = x_get16(packet.data + 24);
	return 0;
}

int gui_move(struct gui *gui, int x, int y, struct err *err)
{
	gui_fake(gui, X_MOTION, 0, 0, x, y);
	return gui_sync(gui, err);
}

int gui_press(struct gui *gui, enum gui_button button, bool down, struct err *err)
{
	gui_fake(gui, down ? X_BUTTON_PRESS : X_BUTTON_RELEASE, button, 0, 0, 0);
	return gui_sync(gui, err);
}

/* Press and release are sent together: none can be missing. */
int gui_click(struct gui *gui, enum gui_button button, int times, struct err *err)
{
	for (int i = 0; i < times; i++) {
		gui_fake(gui, X_BUTTON_PRESS, button, i == 0 ? 0 : CLICK_PAUSE_MS, 0, 0);
		gui_fake(gui, X_BUTTON_RELEASE, button, 0, 0, 0);
	}
	return gui_sync(gui, err);
}

int gui_drag(struct gui *gui, int x, int y, struct err *err)
{
	struct gui_place from;
	if (gui_where(gui, &from, err) < 0)
		return -1;
	if (!(from.state & LEFT_HELD))
		gui_fake(gui, X_BUTTON_PRESS, GUI_LEFT, 0, 0, 0);
	for (int i = 1; i <= DRAG_STEPS; i++)
		gui_fake(gui, X_MOTION, 0, i == 1 ? PRESS_PAUSE_MS : DRAG_PAUSE_MS,
			 from.x + (x - from.x) * i / DRAG_STEPS,
			 from.y + (y - from.y) * i / DRAG_STEPS);
	gui_fake(gui, X_BUTTON_RELEASE, GUI_LEFT, PRESS_PAUSE_MS, 0, 0);
	return gui_sync(gui, err);
}
