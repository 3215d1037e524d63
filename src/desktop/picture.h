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
