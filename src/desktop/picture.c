#include "desktop/picture.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

enum {
	LEVEL = 1, /* screens hardly get smaller by more, and only slower */
	PIECE = 65536,
	PIXEL = 4,
};

static int too_large(struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, "the picture is too large");
}

/* ---- PNG ---- */

static void put32(unsigned char *at, size_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A chunk whose content, and 8 bytes before that, are at `chunk`, and 4 bytes of room behind. */
static void seal_chunk(unsigned char *chunk, const char *type, size_t len)
{
	put32(chunk, len);
	memcpy(chunk + 4, type, 4);
	put32(chunk + 8 + len, crc32(0, chunk + 4, (uInt)len + 4));
}

static int put_chunk(struct buf *to, const char *type, const void *data, size_t len)
{
	unsigned char *chunk = (unsigned char *)buf_grow(to, len + 12);
	if (!chunk)
		return -1;
	if (len)
		memcpy(chunk + 8, data, len);
	seal_chunk(chunk, type, len);
	to->len += len + 12;
	return 0;
}

static int begin_png(const struct picture *picture, struct buf *to)
{
	unsigned char head[13] = { [8] = 8, [9] = 2 }; /* bits of a sample; RGB */
	put32(head, picture->width);
	put32(head + 4, picture->height);
	if (buf_add(to, "\x89PNG\r\n\x1a\n", 8) < 0)
		return -1;
	return put_chunk(to, "IHDR", head, sizeof head);
}

/* Compresses what is given, in chunks that are made in place. */
static int put_data(z_stream *z, int flush, struct buf *to)
{
	do {
		unsigned char *chunk = (unsigned char *)buf_grow(to, PIECE + 12);
		if (!chunk)
			return -1;
		z->next_out = chunk + 8;
		z->avail_out = PIECE;
		(void)deflate(z, flush);
		size_t len = PIECE - z->avail_out;
		if (!len)
			break;
		seal_chunk(chunk, "IDAT", len);
		to->len += len + 12;
	} while (!z->avail_out);
	return 0;
}

/* A row as PNG has it: which filter (none), and red, green, blue. */
static void copy_row(unsigned char *to, const unsigned char *from, unsigned width)
{
	*to++ = 0;
	for (unsigned i = 0; i < width; i++, to += 3, from += PIXEL) {
		to[0] = from[2];
		to[1] = from[1];
		to[2] = from[0];
	}
}

static int put_rows(const struct picture *picture, z_stream *z, struct buf *to)
{
	const size_t row = 1 + (size_t)picture->width * 3, stride = (size_t)picture->width * PIXEL;
	const unsigned many = (unsigned)(row < PIECE * 4 ? PIECE * 4 / row : 1);
	auto_free unsigned char *rows = xmalloc(row * many);
	for (unsigned y = 0; y < picture->height;) {
		unsigned n = picture->height - y < many ? picture->height - y : many;
		for (unsigned i = 0; i < n; i++, y++)
			copy_row(rows + i * row, picture->pixels + y * stride, picture->width);
		z->next_in = rows;
		z->avail_in = (uInt)(n * row);
		if (put_data(z, y == picture->height ? Z_FINISH : Z_NO_FLUSH, to) < 0)
			return -1;
	}
	return 0;
}

int picture_png(const struct picture *picture, struct buf *to, struct err *err)
{
	z_stream z = { 0 };
	if (deflateInit(&z, LEVEL) != Z_OK)
		return err_set(err, ERR_LIMIT, "no memory to compress the picture");
	int result = begin_png(picture, to);
	if (result == 0)
		result = put_rows(picture, &z, to);
	if (result == 0)
		result = put_chunk(to, "IEND", NULL, 0);
	(void)deflateEnd(&z);
	return result == 0 ? 0 : too_large(err);
}

/* ---- JPEG ---- */

struct jpeg_out {
	struct jpeg_error_mgr error; /* first: the library knows it by this */
	struct jpeg_destination_mgr destination;
	struct buf *to;
	jmp_buf failed;
};

static void fail(j_common_ptr jpeg)
{
	longjmp(((struct jpeg_out *)jpeg->err)->failed, 1);
}

static void say_nothing(j_common_ptr jpeg)
{
	(void)jpeg;
}

static boolean next_piece(j_compress_ptr jpeg)
{
	struct jpeg_out *out = jpeg->client_data;
	JOCTET *at = (JOCTET *)buf_grow(out->to, PIECE);
	if (!at)
		fail((j_common_ptr)jpeg);
	out->destination.next_output_byte = at;
	out->destination.free_in_buffer = PIECE;
	return TRUE;
}

static void begin_out(j_compress_ptr jpeg)
{
	(void)next_piece(jpeg);
}

static boolean piece_full(j_compress_ptr jpeg)
{
	struct jpeg_out *out = jpeg->client_data;
	out->to->len += PIECE;
	return next_piece(jpeg);
}

static void end_out(j_compress_ptr jpeg)
{
	struct jpeg_out *out = jpeg->client_data;
	out->to->len += PIECE - out->destination.free_in_buffer;
}

static void compress_rows(j_compress_ptr jpeg, const struct picture *picture, int quality)
{
	jpeg->image_width = picture->width;
	jpeg->image_height = picture->height;
	jpeg->input_components = PIXEL;
	jpeg->in_color_space = JCS_EXT_BGRX;
	jpeg_set_defaults(jpeg);
	jpeg_set_quality(jpeg, quality, TRUE);
	jpeg_start_compress(jpeg, TRUE);
	while (jpeg->next_scanline < jpeg->image_height) {
		const size_t at = (size_t)jpeg->next_scanline * picture->width * PIXEL;
		JSAMPROW row = (JSAMPROW)picture->pixels + at;
		(void)jpeg_write_scanlines(jpeg, &row, 1);
	}
	jpeg_finish_compress(jpeg);
}

int picture_jpeg(const struct picture *picture, int quality, struct buf *to, struct err *err)
{
	struct jpeg_compress_struct jpeg = { 0 };
	struct jpeg_out out = { .destination = { .init_destination = begin_out,
						 .empty_output_buffer = piece_full,
						 .term_destination = end_out },
				.to = to };
	jpeg.err = jpeg_std_error(&out.error);
	out.error.error_exit = fail;
	out.error.output_message = say_nothing;
	if (setjmp(out.failed)) {
		jpeg_destroy_compress(&jpeg);
		return too_large(err);
	}
	jpeg_create_compress(&jpeg);
	jpeg.client_data = &out;
	jpeg.dest = &out.destination;
	compress_rows(&jpeg, picture, quality);
	jpeg_destroy_compress(&jpeg);
	return 0;
}

/* ---- smaller ---- */

/* The first pixel that the one of number `at` stands for. */
static size_t span(size_t at, unsigned from, unsigned to)
{
	return at * from / to;
}

static void average(const struct picture *picture, const size_t x[2], const size_t y[2],
		    unsigned char *to)
{
	size_t sum[3] = { 0 }, count = (x[1] - x[0]) * (y[1] - y[0]);
	if (!count) /* never in a picture that is smaller */
		return;
	for (size_t row = y[0]; row < y[1]; row++) {
		const unsigned char *at = picture->pixels + (row * picture->width + x[0]) * PIXEL;
		for (size_t i = x[0]; i < x[1]; i++, at += PIXEL)
			for (int c = 0; c < 3; c++)
				sum[c] += at[c];
	}
	for (int c = 0; c < 3; c++)
		to[c] = (unsigned char)((sum[c] + count / 2) / count);
	to[3] = 0;
}

struct picture picture_shrink(const struct picture *picture, unsigned side,
			      unsigned char **ret_pixels)
{
	unsigned w = picture->width, h = picture->height, longer = w > h ? w : h;
	*ret_pixels = NULL;
	if (!side || !w || !h || longer <= side)
		return *picture;
	struct picture small = { .width = (unsigned)((uint64_t)w * side / longer),
				 .height = (unsigned)((uint64_t)h * side / longer) };
	small.width += !small.width;
	small.height += !small.height;
	unsigned char *to = *ret_pixels = xmalloc((size_t)small.width * small.height * PIXEL);
	small.pixels = to;
	for (size_t y = 0; y < small.height; y++)
		for (size_t x = 0; x < small.width; x++, to += PIXEL)
			average(picture,
				(size_t[]){ span(x, w, small.width), span(x + 1, w, small.width) },
				(size_t[]){ span(y, h, small.height),
					    span(y + 1, h, small.height) },
				to);
	return small;
}
