#include "desktop/x_size.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "desktop/x.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

enum randr {
	RR_QUERY_VERSION = 0,
	RR_SET_SCREEN_SIZE = 7,
	RR_CREATE_MODE = 16,
	RR_ADD_OUTPUT_MODE = 18,
	RR_SET_CRTC_CONFIG = 21,
	RR_GET_RESOURCES = 25,
};

enum {
	MODE = 32, /* bytes of one in the list */
	ROTATE_0 = 1,
	TRIES = 3, /* a VNC client may change the size meanwhile */
	DOTS = 96, /* to an inch */
	REFRESH = 60,
};

struct resize {
	struct x_link *link;
	const struct wait *wait;
	unsigned randr, width, height;
};

int x_outputs_read(const struct x_packet *packet, unsigned width, unsigned height,
		   struct x_outputs *ret)
{
	const unsigned char *at = packet->data + X_PACKET;
	const size_t crtcs = x_get16(packet->data + 16), outputs = x_get16(packet->data + 18),
		     modes = x_get16(packet->data + 20);
	if (!crtcs || !outputs || 4 * (crtcs + outputs) + MODE * modes > packet->len - X_PACKET)
		return -1;
	*ret = (struct x_outputs){ x_get32(packet->data + 12), x_get32(at), x_get32(at + 4 * crtcs),
				   0 };
	at += 4 * (crtcs + outputs);
	for (size_t i = 0; i < modes && !ret->mode; i++, at += MODE)
		if (x_get16(at + 4) == width && x_get16(at + 6) == height)
			ret->mode = x_get32(at);
	return 0;
}

static int get_outputs(const struct resize *r, struct x_outputs *ret, struct err *err)
{
	struct x_packet packet;
	x_link_put(r->link, r->randr, RR_GET_RESOURCES, &r->link->setup.root, 1);
	if (x_link_reply(r->link, X_PACKET, &packet, r->wait, err) < 0)
		return -1;
	if (x_outputs_read(&packet, r->width, r->height, ret) < 0)
		return err_set(err, ERR_UNAVAILABLE, "the X server has no output to resize");
	return 0;
}

/* A mode of any timing: nothing is lit by it. */
static int make_mode(const struct resize *r, struct x_outputs *outputs, struct err *err)
{
	char name[32];
	struct x_packet packet;
	const unsigned total = r->width + 16, lines = r->height + 16;
	const int len = snprintf(name, sizeof name, "%ux%u", r->width, r->height);
	const uint32_t words[] = { r->link->setup.root,
				   0,
				   x_pair(r->width, r->height),
				   total * lines * REFRESH,
				   x_pair(r->width + 4, r->width + 8),
				   x_pair(total, 0),
				   x_pair(r->height + 4, r->height + 8),
				   x_pair(lines, (unsigned)len),
				   0 };
	x_link_put_tail(r->link, &(struct x_request){ r->randr, RR_CREATE_MODE, words, COUNT(words),
						      name, (size_t)len });
	if (x_link_reply(r->link, X_PACKET, &packet, r->wait, err) < 0)
		return -1;
	outputs->mode = x_get32(packet.data + 8);
	const uint32_t add[] = { outputs->output, outputs->mode };
	x_link_put(r->link, r->randr, RR_ADD_OUTPUT_MODE, add, COUNT(add));
	return x_link_sync(r->link, r->wait, err);
}

static void put_size(const struct resize *r, unsigned width, unsigned height)
{
	const uint32_t words[] = { r->link->setup.root, x_pair(width, height),
				   width * 254 / (DOTS * 10), height * 254 / (DOTS * 10) };
	x_link_put(r->link, r->randr, RR_SET_SCREEN_SIZE, words, COUNT(words));
}

static int get_size(const struct resize *r, unsigned *ret_width, unsigned *ret_height,
		    struct err *err)
{
	struct x_packet packet;
	x_link_put(r->link, X_GET_GEOMETRY, 0, &r->link->setup.root, 1);
	if (x_link_reply(r->link, X_PACKET, &packet, r->wait, err) < 0)
		return -1;
	*ret_width = x_get16(packet.data + 16);
	*ret_height = x_get16(packet.data + 18);
	return 0;
}

/* The screen must hold the old picture and the new one while the one becomes the other. 1: the
 * configuration was another's meanwhile. */
static int switch_to(const struct resize *r, const struct x_outputs *outputs, struct err *err)
{
	unsigned width, height;
	struct x_packet packet;
	const uint32_t words[] = { outputs->crtc, 0,        outputs->stamp, 0,
				   outputs->mode, ROTATE_0, outputs->output };
	if (get_size(r, &width, &height, err) < 0)
		return -1;
	put_size(r, width > r->width ? width : r->width, height > r->height ? height : r->height);
	x_link_put(r->link, r->randr, RR_SET_CRTC_CONFIG, words, COUNT(words));
	if (x_link_reply(r->link, X_PACKET, &packet, r->wait, err) < 0)
		return -1;
	if (packet.data[1])
		return 1;
	put_size(r, r->width, r->height);
	return x_link_sync(r->link, r->wait, err);
}

static int resize_once(const struct resize *r, struct err *err)
{
	struct x_outputs outputs = { 0 };
	if (get_outputs(r, &outputs, err) < 0)
		return -1;
	if (!outputs.mode && make_mode(r, &outputs, err) < 0)
		return -1;
	return switch_to(r, &outputs, err);
}

static int resize(struct resize *r, struct err *err)
{
	struct x_packet packet;
	const uint32_t version[] = { 1, 3 };
	unsigned width, height;
	r->randr = x_link_extension(r->link, "RANDR", r->wait);
	if (!r->randr)
		return err_set(err, ERR_UNAVAILABLE, "the X server has no RANDR extension");
	x_link_put(r->link, r->randr, RR_QUERY_VERSION, version, COUNT(version));
	if (x_link_reply(r->link, X_PACKET, &packet, r->wait, err) < 0)
		return -1;
	int result = 1;
	for (int i = 0; i < TRIES && result > 0; i++)
		result = resize_once(r, err);
	if (result < 0 || get_size(r, &width, &height, err) < 0)
		return -1;
	if (result > 0 || width != r->width || height != r->height)
		return err_set(err, ERR_UNAVAILABLE,
			       "the screen cannot be resized to %ux%u: it is %ux%u", r->width,
			       r->height, width, height);
	return 0;
}

int x_resize(struct x *x, unsigned width, unsigned height, const struct wait *wait, struct err *err)
{
	struct resize r = { x_take(x, wait, err), wait, 0, width, height };
	if (!r.link)
		return -1;
	int result = resize(&r, err);
	x_give(x);
	return result;
}
