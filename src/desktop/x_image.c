#include "desktop/x_image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/own.h"
#include "base/turn.h"
#include "desktop/x.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

enum {
	SIDE_MAX = 8192,
	STRIP = 1 << 20, /* bytes of a reply, where memory cannot be shared */
	PIXEL = 4,
	Z_PIXMAP = 2,
	TRIES = 5, /* the size may change between asking for it and for the picture */
};

enum shm_minor { SHM_QUERY_VERSION = 0, SHM_DETACH = 2, SHM_GET_IMAGE = 4, SHM_ATTACH_FD = 6 };

struct x_image {
	struct x *x;
	struct turn turn;
	unsigned shm; /* the extension's opcode; 0: memory cannot be shared */
	bool asked;
	uint32_t segment; /* 0: none */
	unsigned char *pixels;
	size_t room;
};

struct x_image *x_image_new(struct x *x)
{
	struct x_image *image = xcalloc(1, sizeof *image);
	*image = (struct x_image){ .x = x, .turn = TURN };
	return image;
}

static void unmap(struct x_image *image)
{
	if (image->pixels)
		(void)munmap(image->pixels, image->room);
	image->pixels = NULL;
	image->room = 0;
}

void x_image_free(struct x_image *image)
{
	if (image)
		unmap(image);
	free(image);
}

/* ---- memory that is shared ---- */

/* Sealed: an X server that made it shorter would end us when we read it. */
static int make_memory(struct x_image *image, size_t room, struct err *err)
{
	auto_close int fd = memfd_create("screen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unmap(image);
	if (fd < 0 || ftruncate(fd, (off_t)room) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_set(err, errno, "no memory for the picture of the screen");
	void *pixels = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pixels == MAP_FAILED)
		return err_set(err, errno, "no memory for the picture of the screen");
	image->pixels = pixels;
	image->room = room;
	return TAKE_FD(fd);
}

static void find_shm(struct x_image *image, struct x_link *link, const struct wait *wait)
{
	struct x_packet packet;
	image->asked = true;
	image->shm = x_link_extension(link, "MIT-SHM", wait);
	if (!image->shm)
		return;
	x_link_put(link, image->shm, SHM_QUERY_VERSION, NULL, 0);
	bool answered = x_link_reply(link, X_PACKET, &packet, wait, NULL) == 0;
	if (!answered || (x_get16(packet.data + 8) == 1 && x_get16(packet.data + 10) < 2))
		image->shm = 0; /* descriptors are passed from 1.2 on */
}

static void detach(struct x_image *image, struct x_link *link)
{
	if (image->segment)
		x_link_put(link, image->shm, SHM_DETACH, &image->segment, 1);
	image->segment = 0;
}

static int attach(struct x_image *image, struct x_link *link, int fd, const struct wait *wait)
{
	uint32_t segment = x_link_id(link);
	const uint32_t words[] = { segment, 0 };
	link->pass_fd = fd;
	x_link_put(link, image->shm, SHM_ATTACH_FD, words, COUNT(words));
	int result = x_link_sync(link, wait, NULL);
	link->pass_fd = -1;
	if (result == 0)
		image->segment = segment;
	else
		image->shm = 0;
	return result;
}

static int make_room(struct x_image *image, struct x_link *link, size_t room,
		     const struct wait *wait, struct err *err)
{
	if (!image->asked)
		find_shm(image, link, wait);
	if (image->room == room)
		return 0;
	detach(image, link);
	auto_close int fd = make_memory(image, room, err);
	if (fd < 0)
		return -1;
	if (image->shm)
		(void)attach(image, link, fd, wait);
	return 0;
}

/* ---- the picture ---- */

static int get_size(struct x_link *link, struct picture *ret, const struct wait *wait,
		    struct err *err)
{
	struct x_packet packet;
	x_link_put(link, X_GET_GEOMETRY, 0, &link->setup.root, 1);
	if (x_link_reply(link, X_PACKET, &packet, wait, err) < 0)
		return -1;
	ret->width = x_get16(packet.data + 16);
	ret->height = x_get16(packet.data + 18);
	if (!ret->width || !ret->height || ret->width > SIDE_MAX || ret->height > SIDE_MAX)
		return err_set(err, ERR_UNAVAILABLE, "the screen is %ux%u: at most %d a side",
			       ret->width, ret->height, SIDE_MAX);
	return 0;
}

static int get_shared(const struct x_image *image, struct x_link *link, const struct picture *size,
		      const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	const uint32_t words[] = {
		link->setup.root, 0, x_pair(size->width, size->height), UINT32_MAX, Z_PIXMAP,
		image->segment,   0
	};
	x_link_put(link, image->shm, SHM_GET_IMAGE, words, COUNT(words));
	return x_link_reply(link, X_PACKET, &packet, wait, err);
}

static int get_strip(const struct x_image *image, struct x_link *link, const struct picture *size,
		     unsigned row, unsigned rows, const struct wait *wait, struct err *err)
{
	struct x_packet packet;
	const size_t stride = (size_t)size->width * PIXEL;
	const uint32_t words[] = { link->setup.root, x_pair(0, row), x_pair(size->width, rows),
				   UINT32_MAX };
	x_link_put(link, X_GET_IMAGE, Z_PIXMAP, words, COUNT(words));
	if (x_link_reply(link, X_PACKET + rows * stride, &packet, wait, err) < 0)
		return -1;
	memcpy(image->pixels + row * stride, packet.data + X_PACKET, rows * stride);
	return 0;
}

static int get_strips(const struct x_image *image, struct x_link *link, const struct picture *size,
		      const struct wait *wait, struct err *err)
{
	unsigned most = STRIP / (size->width * PIXEL);
	for (unsigned row = 0; row < size->height; row += most) {
		unsigned rows = size->height - row < most ? size->height - row : most;
		if (get_strip(image, link, size, row, rows, wait, err) < 0)
			return -1;
	}
	return 0;
}

static int get_once(struct x_image *image, struct x_link *link, struct picture *ret,
		    const struct wait *wait, struct err *err)
{
	if (get_size(link, ret, wait, err) < 0)
		return -1;
	if (make_room(image, link, (size_t)ret->width * ret->height * PIXEL, wait, err) < 0)
		return -1;
	ret->pixels = image->pixels;
	return image->segment ? get_shared(image, link, ret, wait, err)
			      : get_strips(image, link, ret, wait, err);
}

static int get(struct x_image *image, struct picture *ret, const struct wait *wait, struct err *err)
{
	struct x_link *link = x_take(image->x, wait, err);
	if (!link)
		return -1;
	int result = -1;
	for (int i = 0; i < TRIES && result < 0; i++) {
		result = get_once(image, link, ret, wait, err);
		if (link->refused != X_BAD_MATCH)
			break;
	}
	x_give(image->x);
	return result;
}

int x_image_take(struct x_image *image, struct picture *ret, const struct wait *wait,
		 struct err *err)
{
	if (turn_take(&image->turn, wait, err) < 0)
		return -1;
	int result = get(image, ret, wait, err);
	if (result < 0)
		turn_give(&image->turn);
	return result;
}

void x_image_give(struct x_image *image)
{
	turn_give(&image->turn);
}
