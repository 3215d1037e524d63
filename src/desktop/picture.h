/* picture.h - pictures as files: PNG and JPEG of pixels that are blue, green, red and a byte of nothing. */
#pragma once

struct buf;
struct err;

struct picture {
	const unsigned char *pixels; /* rows without gaps; another may write them meanwhile */
	unsigned width, height;
};

/* Each adds the file to a buffer. */
int picture_png(const struct picture *picture, struct buf *to, struct err *err);
int picture_jpeg(const struct picture *picture, int quality, struct buf *to, struct err *err);

/* A smaller one of the same, whose longer side has at most `side` pixels, each the average of those that it
 * stands for. Its pixels are *ret_pixels, to be freed; NULL where it is small enough already. */
struct picture picture_shrink(const struct picture *picture, unsigned side,
			      unsigned char **ret_pixels);
