/* What an X server sends: whole and byte by byte it must be the same packets, and none is read beyond its end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "desktop/keyboard.h"
#include "desktop/x_link.h"
#include "desktop/x_setup.h"
#include "desktop/x_size.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* In memory of exactly its size. */
static void read_packet(const struct x_packet *packet)
{
	unsigned char *copy = xmalloc(packet->len);
	memcpy(copy, packet->data, packet->len);
	const struct x_packet own = { packet->kind, packet->sequence, copy, packet->len };
	struct x_property property;
	struct x_outputs outputs;
	struct keyboard keyboard = { .first = 8, .last = 255 };
	if (x_property_read(&own, &property) == 0 && property.len > own.len - X_PACKET)
		abort();
	(void)x_outputs_read(&own, 1280, 1024, &outputs);
	(void)keyboard_read(&keyboard, &own, copy[2] & 3);
	free(copy);
}

static size_t read_all(const uint8_t *input, size_t size, size_t piece)
{
	struct x_wire wire;
	struct x_packet packet;
	size_t count = 0;
	x_wire_init(&wire);
	for (size_t at = 0, n; at < size; at += n) {
		size_t room;
		char *to = x_wire_room(&wire, &room);
		if (!to)
			break;
		n = size - at < piece ? size - at : piece;
		n = n < room ? n : room;
		memcpy(to, input + at, n);
		x_wire_take(&wire, n);
		for (; x_wire_next(&wire, &packet); count++)
			read_packet(&packet);
	}
	x_wire_done(&wire);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct x_setup setup;
	struct err err;
	unsigned char *copy = xmalloc(size + 1);
	memcpy(copy, input, size);
	(void)x_setup_read(copy, size, &setup, &err);
	free(copy);
	if (read_all(input, size, SIZE_MAX) != read_all(input, size, 7))
		abort();
	return 0;
}
