/* What a viewer sends: whole and byte by byte the same passes, never more than was sent, and all of it is
 * what a viewer may send. */
#include "desktop/rfb.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool pass(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct rfb_viewer viewer;
	rfb_viewer_init(&viewer);
	for (size_t at = 0; at < size; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		uint8_t *copy = xmalloc(n); /* of exactly its size */
		memcpy(copy, data + at, n);
		int result = rfb_viewer_pass(&viewer, copy, n, out, NULL);
		free(copy);
		if (result < 0)
			return false;
	}
	return true;
}

/* The stream as a server reads it, by a second reading of the protocol: nothing but what may pass. */
static bool is_clean(const unsigned char *at, size_t len)
{
	static const struct {
		unsigned char type, len;
	} fixed[] = { { 0, 20 }, { 3, 10 }, { 150, 10 } };
	const unsigned char *end = at + len;
	if (len < 14 || memcmp(at, "RFB 003.00", 10) != 0 || at[12] != 1 || at[13] != 1)
		return len < 14;
	for (at += 14; at < end;) {
		size_t left = (size_t)(end - at), n = 0;
		for (size_t i = 0; i < COUNT(fixed); i++)
			if (*at == fixed[i].type)
				n = fixed[i].len;
		if (*at == 248)
			n = left < 9 ? left : 9U + at[8];
		if (*at == 2)
			n = left < 4 ? left : 4 + 4 * (at[2] * 256U + at[3]);
		if (!n)
			return false;
		at += n < left ? n : left;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Most of what is tried gets beyond the handshake. */
	auto_buf struct buf in = BUF(1 << 22), whole = BUF(1 << 22), split = BUF(1 << 22);
	if (size && data[0] & 1)
		buf_add(&in, "RFB 003.008\n\1", 13);
	buf_add(&in, data, size);
	const uint8_t *from = (const uint8_t *)in.data;
	if (!size)
		return 0;
	bool ok = pass(from, in.len, in.len, &whole);
	if (pass(from, in.len, 1, &split) != ok || whole.len != split.len || whole.len > in.len ||
	    (whole.len && memcmp(whole.data, split.data, whole.len) != 0))
		abort();
	if (whole.len && !is_clean((const unsigned char *)whole.data, whole.len))
		abort();
	return 0;
}
