#include "desktop/x.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/turn.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

enum {
	MANY = 1024, /* words of a property */
	PROBE_MS = 20,
	OF_A_PAGER = 2, /* who asks for the focus: not the window's own program */
};

struct x {
	int number;
	unsigned char cookie[X_COOKIE];
	struct x_link link; /* of whoever has the turn */
	struct turn turn;
};

struct x *x_open(int number, const unsigned char cookie[16], const struct wait *wait,
		 struct err *err)
{
	struct x *x = xcalloc(1, sizeof *x);
	*x = (struct x){ .number = number, .turn = TURN };
	memcpy(x->cookie, cookie, sizeof x->cookie);
	if (x_link_open(&x->link, number, cookie, wait, err) == 0)
		return x;
	x_free(x);
	return NULL;
}

void x_free(struct x *x)
{
	x_link_done(&x->link);
	free(x);
}

bool x_broken(struct x *x)
{
	return x->link.broken;
}

int x_open_link(struct x *x, struct x_link *ret, const struct wait *wait, struct err *err)
{
	return x_link_open(ret, x->number, x->cookie, wait, err);
}

/* ---- turns ---- */

struct x_link *x_take(struct x *x, const struct wait *wait, struct err *err)
{
	return turn_take(&x->turn, wait, err) == 0 ? &x->link : NULL;
}

void x_give(struct x *x)
{
	turn_give(&x->turn);
}

/* ---- the window manager ---- */

/* A window that a property names; 0: none. */
static uint32_t named_window(struct x_link *link, uint32_t of, uint32_t atom,
			     const struct wait *wait)
{
	struct x_property property;
	if (x_link_property(link, of, atom, false, 1, &property, wait, NULL) < 0)
		return 0;
	return property.format == 32 && property.len == 4 ? x_get32(property.data) : 0;
}

/* What a manager that was killed has left on the root names a window that is gone. */
static bool has_manager(struct x_link *link, uint32_t atom, const struct wait *wait)
{
	uint32_t window = named_window(link, link->setup.root, atom, wait);
	return window && named_window(link, window, atom, wait) == window;
}

/* The next event, unless the program ends. */
static int next_event(struct x_link *link, int pidfd, struct x_packet *ret, const struct wait *wait,
		      struct err *err)
{
	if (link->broken)
		return err_set(err, ERR_UNAVAILABLE, "its X server has ended");
	if (x_link_event(link, pidfd, ret, wait, err) < 0)
		return -1;
	return ret->kind == X_REPLY ? err_set(err, ERR_UNAVAILABLE, "it has ended") : 0;
}

/* Waits for a property of a window to change. */
static bool await_change(struct x_link *link, uint32_t window, uint32_t atom, int pidfd,
			 const struct wait *wait, struct err *err)
{
	struct x_packet packet = { 0 };
	do {
		if (next_event(link, pidfd, &packet, wait, err) < 0)
			return false;
	} while (packet.kind != X_PROPERTY_NOTIFY || x_get32(packet.data + 4) != window ||
		 x_get32(packet.data + 8) != atom);
	return true;
}

/* Asks it something that it answers once it has begun its work: before, it takes a new window for one that
 * has been there always, which does not get the focus. What it is asked too early is lost, so it is asked
 * every few milliseconds. */
static int ask_manager(struct x_link *link, int pidfd, const struct wait *wait, struct err *err)
{
	const uint32_t window = x_link_id(link), root = link->setup.root;
	const uint32_t make[] = {
		window, root, 0, x_pair(1, 1), 0, 0, X_CW_EVENT_MASK, X_PROPERTY_CHANGE_MASK
	};
	const uint32_t ask = x_link_atom(link, "_NET_REQUEST_FRAME_EXTENTS", wait),
		       answer = x_link_atom(link, "_NET_FRAME_EXTENTS", wait);
	const uint32_t message[] = {
		root, X_SUBSTRUCTURE_MASK, X_CLIENT_MESSAGE | 32 << 8, window, ask, 0, 0, 0, 0, 0
	};
	x_link_put(link, X_CREATE_WINDOW, 0, make, COUNT(make));
	while (!link->broken && clock_ms() < wait->until_ms) {
		const struct wait moment = { clock_ms() + PROBE_MS, -1, wait->stop_fd };
		x_link_put(link, X_SEND_EVENT, 0, message, COUNT(message));
		if (x_link_flush(link, wait, err) < 0)
			return -1;
		if (await_change(link, window, answer, pidfd, &moment, err))
			return 0;
		if (err->code != ERR_SLOW)
			return -1;
	}
	return -1;
}

/* Windows that were there before it have no focus: the uppermost gets it, unless one has. */
static int focus_window(struct x_link *link, int pidfd, const struct wait *wait, struct err *err)
{
	const uint32_t root = link->setup.root,
		       active = x_link_atom(link, "_NET_ACTIVE_WINDOW", wait),
		       stacking = x_link_atom(link, "_NET_CLIENT_LIST_STACKING", wait);
	struct x_property windows = { 0 };
	if (named_window(link, root, active, wait) ||
	    x_link_property(link, root, stacking, false, MANY, &windows, wait, NULL) < 0 ||
	    windows.format != 32 || windows.len < 4)
		return 0;
	const uint32_t upper = x_get32(windows.data + (windows.len / 4 - 1) * 4);
	const uint32_t message[] = { root,
				     X_SUBSTRUCTURE_MASK,
				     X_CLIENT_MESSAGE | 32 << 8,
				     upper,
				     active,
				     OF_A_PAGER,
				     0,
				     0,
				     0,
				     0 };
	x_link_put(link, X_SEND_EVENT, 0, message, COUNT(message));
	return ask_manager(link, pidfd, wait, err); /* it answers in order: then it has done so */
}

static int await_manager(struct x_link *link, int pidfd, const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	const uint32_t select[] = { link->setup.root, X_CW_EVENT_MASK, X_PROPERTY_CHANGE_MASK };
	uint32_t atom = x_link_atom(link, "_NET_SUPPORTING_WM_CHECK", wait);
	x_link_put(link, X_CHANGE_WINDOW_ATTRIBUTES, 0, select, COUNT(select));
	if (x_link_sync(link, wait, err) < 0)
		return -1;
	while (!has_manager(link, atom, wait))
		if (next_event(link, pidfd, &packet, wait, err) < 0)
			return -1;
	return ask_manager(link, pidfd, wait, err) < 0 ? -1 : focus_window(link, pidfd, wait, err);
}

/* On a connection of its own: nobody else has to wait for their turn meanwhile, or gets its events. */
int x_wait_manager(struct x *x, int pidfd, const struct wait *wait, struct err *err)
{
	struct x_link link;
	if (x_open_link(x, &link, wait, err) < 0)
		return -1;
	int result = await_manager(&link, pidfd, wait, err);
	x_link_done(&link);
	return result;
}

/* ---- what is on the desktop ---- */

bool x_has_windows(struct x *x, const struct wait *wait)
{
	struct x_property property = { 0 };
	struct x_link *link = x_take(x, wait, NULL);
	if (!link)
		return true; /* somebody uses it */
	uint32_t atom = x_link_atom(link, "_NET_CLIENT_LIST", wait);
	int result =
		x_link_property(link, link->setup.root, atom, false, MANY, &property, wait, NULL);
	x_give(x);
	return result == 0 && property.len > 0;
}

int x_size(struct x *x, struct x_size *ret, const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	struct x_link *link = x_take(x, wait, err);
	if (!link)
		return -1;
	x_link_put(link, X_GET_GEOMETRY, 0, &link->setup.root, 1);
	int result = x_link_reply(link, X_PACKET, &packet, wait, err);
	if (result == 0)
		*ret = (struct x_size){ x_get16(packet.data + 16), x_get16(packet.data + 18) };
	x_give(x);
	return result;
}
