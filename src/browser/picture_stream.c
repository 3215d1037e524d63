/* An element is its id, the length of what it holds, and that (RFC 8794); the ids are those of RFC 9559. */
#include "browser/picture_stream.h"

#include "base/buf.h"

enum { HEAD_MAX = 256 };

/* The id begins with a byte that is not 0. */
static void put_id(struct buf *to, uint32_t id)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		if (id >> shift)
			(void)buf_add(to, &(unsigned char){ (unsigned char)(id >> shift) }, 1);
}

/* Always in four bytes. */
static void put_length(struct buf *to, size_t len)
{
	const unsigned char bytes[] = { (unsigned char)(0x10 | (len >> 24 & 0xf)),
					(unsigned char)(len >> 16), (unsigned char)(len >> 8),
					(unsigned char)len };
	(void)buf_add(to, bytes, sizeof bytes);
}

static void put_bytes(struct buf *to, uint32_t id, const void *data, size_t len)
{
	put_id(to, id);
	put_length(to, len);
	(void)buf_add(to, data, len);
}

/* Always in eight bytes. */
static void put_number(struct buf *to, uint32_t id, uint64_t number)
{
	unsigned char bytes[8];
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(number >> (56 - 8 * i));
	put_bytes(to, id, bytes, sizeof bytes);
}

static void put_group(struct buf *to, uint32_t id, const struct buf *inner)
{
	put_bytes(to, id, inner->data, inner->len);
}

static void put_track(struct buf *to, int width, int height, int64_t fps)
{
	auto_buf struct buf track = BUF(HEAD_MAX), size = BUF(HEAD_MAX);
	put_number(&size, 0xB0, (uint64_t)width);
	put_number(&size, 0xBA, (uint64_t)height);
	put_number(&track, 0xD7, 1);   /* its number */
	put_number(&track, 0x73C5, 1); /* its UID */
	put_number(&track, 0x83, 1);   /* video */
	put_bytes(&track, 0x86, "V_MJPEG", 7);
	put_number(&track, 0x23E383, (uint64_t)(1000000000 / fps)); /* of a picture: ns */
	put_group(&track, 0xE0, &size);
	put_group(to, 0xAE, &track);
}

int picture_stream_begin(struct buf *to, int width, int height, int64_t fps)
{
	static const unsigned char unknown[] = { 0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
	auto_buf struct buf head = BUF(HEAD_MAX), info = BUF(HEAD_MAX), tracks = BUF(HEAD_MAX);
	put_bytes(&head, 0x4282, "matroska", 8);
	put_number(&head, 0x4287, 4); /* its version, */
	put_number(&head, 0x4285, 2); /* and what a reader has to know */
	put_group(to, 0x1A45DFA3, &head);
	put_id(to, 0x18538067); /* all that follows, until the stream ends */
	(void)buf_add(to, unknown, sizeof unknown);
	put_number(&info, 0x2AD7B1, 1000000); /* times are milliseconds */
	put_group(to, 0x1549A966, &info);
	put_track(&tracks, width, height, fps);
	put_group(to, 0x1654AE6B, &tracks);
	return to->full ? -1 : 0;
}

/* A cluster with one block, which has the cluster's time. */
int picture_stream_next(struct buf *to, int64_t ms, size_t len)
{
	static const unsigned char block[] = { 0x81, 0, 0, 0x80 }; /* of track 1; a key frame */
	enum { TIME = 1 + 4 + 8, BLOCK_HEAD = 1 + 4 };
	put_id(to, 0x1F43B675);
	put_length(to, TIME + BLOCK_HEAD + sizeof block + len);
	put_number(to, 0xE7, (uint64_t)ms);
	put_id(to, 0xA3);
	put_length(to, sizeof block + len);
	(void)buf_add(to, block, sizeof block);
	return to->full ? -1 : 0;
}
