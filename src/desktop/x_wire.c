#include "desktop/x_wire.h"

#include <string.h>

enum {
	PIECE = 65536,
	KEEP = 1 << 18,       /* a buffer that had to grow beyond this is given back */
	GENERIC_EVENT = 35,   /* the one event that can be longer than X_PACKET */
	SENT = 0x80,          /* the bit of an event that another client has sent */
	REQUEST_MAX = 0xffff, /* words */
};

void x_wire_init(struct x_wire *wire)
{
	*wire = (struct x_wire){ .in = BUF((size_t)X_REPLY_MAX + 2 * PIECE) };
}

void x_wire_done(struct x_wire *wire)
{
	buf_done(&wire->in);
}

static void compact(struct x_wire *wire)
{
	size_t left = wire->in.len - wire->at;
	if (!left && wire->in.room > KEEP)
		buf_done(&wire->in);
	else if (left && wire->at)
		memmove(wire->in.data, wire->in.data + wire->at, left);
	wire->in.len = left;
	wire->at = 0;
}

char *x_wire_room(struct x_wire *wire, size_t *ret_room)
{
	compact(wire);
	*ret_room = PIECE;
	char *to = buf_grow(&wire->in, PIECE);
	if (!to)
		wire->failed = true;
	return to;
}

void x_wire_take(struct x_wire *wire, size_t len)
{
	wire->in.len += len;
}

/* The words that follow the first X_PACKET bytes. */
static uint32_t words_after(const unsigned char *data)
{
	unsigned kind = data[0] & ~(unsigned)SENT;
	return kind == X_REPLY || kind == GENERIC_EVENT ? x_get32(data + 4) : 0;
}

bool x_wire_next(struct x_wire *wire, struct x_packet *ret)
{
	size_t left = wire->in.len - wire->at;
	if (wire->failed || left < X_PACKET)
		return false;
	const unsigned char *data = (const unsigned char *)wire->in.data + wire->at;
	uint32_t words = words_after(data);
	if (words > (X_REPLY_MAX - X_PACKET) / 4) {
		wire->failed = true;
		return false;
	}
	size_t len = X_PACKET + (size_t)words * 4;
	if (left < len)
		return false;
	*ret = (struct x_packet){ data[0] & ~(unsigned)SENT, x_get16(data + 2), data, len };
	wire->at += len;
	return true;
}

bool x_wire_setup(struct x_wire *wire, const unsigned char **ret_data, size_t *ret_len)
{
	size_t left = wire->in.len - wire->at;
	if (wire->failed || left < X_SETUP_HEAD)
		return false;
	*ret_data = (const unsigned char *)wire->in.data + wire->at;
	*ret_len = X_SETUP_HEAD + (size_t)x_get16(*ret_data + 6) * 4;
	if (left < *ret_len)
		return false;
	wire->at += *ret_len;
	return true;
}

int x_wire_put(struct buf *to, const struct x_request *request)
{
	static const char zeros[3];
	size_t padding = -request->tail_len & 3;
	size_t words = 1 + request->count + (request->tail_len + padding) / 4;
	if (words > REQUEST_MAX)
		return -1;
	const unsigned char head[] = { (unsigned char)request->opcode,
				       (unsigned char)request->detail, (unsigned char)(words & 255),
				       (unsigned char)(words >> 8) };
	int result = buf_add(to, head, sizeof head);
	for (size_t i = 0; i < request->count && result == 0; i++) {
		uint32_t word = request->words[i];
		const unsigned char bytes[] = { (unsigned char)word, (unsigned char)(word >> 8),
						(unsigned char)(word >> 16),
						(unsigned char)(word >> 24) };
		result = buf_add(to, bytes, sizeof bytes);
	}
	if (result == 0 && request->tail_len)
		result = buf_add(to, request->tail, request->tail_len);
	return result < 0 ? result : buf_add(to, zeros, padding);
}
