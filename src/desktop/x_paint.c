#include "desktop/x_paint.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "desktop/x.h"
#include "desktop/x_image.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

enum damage_minor { DAMAGE_QUERY_VERSION = 0, DAMAGE_CREATE = 1, DAMAGE_SUBTRACT = 3 };
enum { NON_EMPTY = 3, PIXEL = 4 }; /* NON_EMPTY: one event, until what it is about is subtracted */

static bool is_plain(const struct picture *picture)
{
	const size_t len = (size_t)picture->width * picture->height * PIXEL;
	return memcmp(picture->pixels, picture->pixels + PIXEL, len - PIXEL) == 0;
}

/* 1: it is painted. */
static int look(struct x_image *image, const struct wait *wait, struct err *err)
{
	struct picture picture;
	if (x_image_take(image, &picture, wait, err) < 0)
		return -1;
	int painted = !is_plain(&picture);
	x_image_give(image);
	return painted;
}

static int watch(struct x_link *link, unsigned extension, uint32_t damage, const struct wait *wait,
		 struct err *err)
{
	struct x_packet packet;
	const uint32_t version[] = { 1, 1 };
	const uint32_t create[] = { damage, link->setup.root, NON_EMPTY };
	x_link_put(link, extension, DAMAGE_QUERY_VERSION, version, COUNT(version));
	if (x_link_reply(link, X_PACKET, &packet, wait, err) < 0)
		return -1;
	x_link_put(link, extension, DAMAGE_CREATE, create, COUNT(create));
	return x_link_flush(link, wait, err);
}

/* Looks at the screen whenever it has changed. */
static int await_paint(struct x_link *link, struct x_image *image, const struct wait *wait,
		       struct err *err)
{
	const uint32_t damage = x_link_id(link), subtract[] = { damage, 0, 0 };
	const unsigned extension = x_link_extension(link, "DAMAGE", wait);
	struct x_packet packet;
	int painted;
	if (!extension)
		return err_set(err, ERR_UNAVAILABLE, "the X server has no DAMAGE extension");
	if (watch(link, extension, damage, wait, err) < 0)
		return -1;
	while ((painted = look(image, wait, err)) == 0) {
		if (x_link_event(link, -1, &packet, wait, err) < 0)
			return -1;
		x_link_put(link, extension, DAMAGE_SUBTRACT, subtract, COUNT(subtract));
		if (x_link_flush(link, wait, err) < 0)
			return -1;
	}
	return painted < 0 ? -1 : 0;
}

int x_await_paint(struct x *x, struct x_image *image, const struct wait *wait, struct err *err)
{
	struct x_link link;
	if (x_open_link(x, &link, wait, err) < 0)
		return -1;
	int result = await_paint(&link, image, wait, err);
	x_link_done(&link);
	return result;
}
