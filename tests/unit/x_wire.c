#include "desktop/x_wire.h"

#include "base/err.h"
#include "base/own.h"
#include "desktop/keyboard.h"
#include "desktop/keys.h"
#include "desktop/x_link.h"
#include "desktop/x_setup.h"
#include "desktop/x_size.h"
#include "tap.h"

static void feed(struct x_wire *wire, const void *data, size_t len)
{
	const char *from = data;
	for (size_t i = 0; i < len; i++) {
		size_t room;
		char *to = x_wire_room(wire, &room);
		if (!to)
			return;
		*to = from[i];
		x_wire_take(wire, 1);
	}
}

static void packets(void)
{
	struct x_wire wire;
	struct x_packet packet;
	const unsigned char event[32] = { 28 | 0x80, 0, 7, 1 }, error[32] = { 0, 3, 8, 1 };
	const unsigned char reply[40] = { 1, 0, 9, 1, 2, [36] = 42 };
	x_wire_init(&wire);
	feed(&wire, event, 31);
	CHECK(!x_wire_next(&wire, &packet));
	feed(&wire, event + 31, 1);
	CHECK(x_wire_next(&wire, &packet) && packet.kind == 28 && packet.sequence == 0x107);
	feed(&wire, error, 32);
	feed(&wire, reply, 39);
	CHECK(x_wire_next(&wire, &packet) && packet.kind == X_ERROR && packet.data[1] == 3);
	CHECK(!x_wire_next(&wire, &packet));
	feed(&wire, reply + 39, 1);
	CHECK(x_wire_next(&wire, &packet) && packet.len == 40 && packet.data[36] == 42);
	CHECK(!x_wire_next(&wire, &packet) && !wire.failed);
	const unsigned char huge[32] = { 1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f };
	feed(&wire, huge, 32);
	CHECK(!x_wire_next(&wire, &packet) && wire.failed);
	x_wire_done(&wire);
}

static void requests(void)
{
	auto_buf struct buf to = BUF(1 << 20);
	const uint32_t word = 0x04030201;
	CHECK(x_wire_put(&to, &(struct x_request){ 16, 5, &word, 1, "hello", 5 }) == 0);
	CHECK(to.len == 16 && !memcmp(to.data, "\x10\5\4\0\1\2\3\4hello\0\0\0", 16));
	CHECK(x_wire_put(&to, &(struct x_request){ 16, 5, NULL, 0, to.data, 1 << 18 }) < 0);
}

/* What a server says of itself: one format, one screen, one depth, one visual. */
enum { SETUP = 40 + 4 + 8 + 40 + 8 + 24 };
static void make_setup(unsigned char to[SETUP])
{
	memset(to, 0, SETUP);
	to[0] = 1;
	to[14] = 0x20;            /* the base of our numbers */
	to[16] = to[17] = 0xff;   /* and their mask */
	to[24] = 3;               /* bytes of the vendor */
	to[28] = to[29] = 1;      /* screens, formats */
	to[34] = 8, to[35] = 255; /* keycodes */
	to[44] = 24, to[45] = 32; /* a format: depth, bits */
	to[52] = 78;              /* the root */
	to[52 + 20] = 64, to[52 + 22] = 48;
	to[52 + 32] = 33;          /* its visual */
	to[52 + 38] = 24;          /* depth */
	to[52 + 39] = 1;           /* depths */
	to[92] = 24, to[94] = 1;   /* a depth with one visual */
	to[100] = 33, to[104] = 4; /* true colour */
	to[110] = 0xff, to[113] = 0xff, to[116] = 0xff;
}

static void setup(void)
{
	unsigned char data[SETUP];
	struct x_setup got;
	struct err err;
	make_setup(data);
	CHECK(x_setup_read(data, SETUP, &got, &err) == 0);
	CHECK(got.root == 78 && got.width == 64 && got.height == 48 && got.depth == 24);
	CHECK(got.id_base == 0x200000 && got.id_mask == 0xffff && got.last_keycode == 255);
	for (size_t len = 0; len < SETUP; len++) {
		unsigned char *cut = xmalloc(len + 1);
		memcpy(cut, data, len);
		CHECK(x_setup_read(cut, len, &got, &err) < 0);
		free(cut);
	}
	data[45] = 16;
	CHECK(x_setup_read(data, SETUP, &got, &err) < 0);
	make_setup(data);
	data[110] = 0; /* red is elsewhere */
	CHECK(x_setup_read(data, SETUP, &got, &err) < 0);
	CHECK(x_setup_read((const unsigned char *)"\0\2\0\0\0\0\1\0no\0\0", 12, &got, &err) < 0);
	CHECK_STR(err.msg, "the X server refused the connection: no");
}

static void properties(void)
{
	unsigned char data[36] = { 1, 8, [8] = 31, [16] = 4, [32] = 'a', 'b', 'c', 'd' };
	const struct x_packet packet = { X_REPLY, 0, data, sizeof data };
	struct x_property got;
	CHECK(x_property_read(&packet, &got) == 0 && got.len == 4 && got.type == 31 && !got.more);
	data[16] = 5;
	CHECK(x_property_read(&packet, &got) < 0);
	data[16] = 1, data[1] = 32;
	CHECK(x_property_read(&packet, &got) == 0 && got.len == 4);
	data[1] = 24;
	CHECK(x_property_read(&packet, &got) < 0);
}

static void outputs(void)
{
	unsigned char data[72] = { 1, [16] = 1, [18] = 1, [20] = 1, [32] = 5, [36] = 6, [40] = 7 };
	const struct x_packet packet = { X_REPLY, 0, data, sizeof data };
	struct x_outputs got;
	data[44] = 100, data[46] = 50;
	CHECK(x_outputs_read(&packet, 100, 50, &got) == 0 && got.crtc == 5 && got.output == 6 &&
	      got.mode == 7);
	CHECK(x_outputs_read(&packet, 100, 51, &got) == 0 && !got.mode);
	data[20] = 2;
	CHECK(x_outputs_read(&packet, 100, 50, &got) < 0);
	data[20] = data[16] = 0;
	CHECK(x_outputs_read(&packet, 100, 50, &got) < 0);
}

static void keyboards(void)
{
	unsigned char data[32 + 2 * 3 * 4] = {
		1, 2, [32] = 'a', [36] = 'A', [40] = '1', [44] = '!'
	};
	const struct x_packet packet = { X_REPLY, 0, data, sizeof data };
	struct keyboard keyboard = { .first = 8, .last = 10 };
	struct keystroke key;
	int64_t again;
	const uint32_t wanted[] = { 0x1004f60, 0x1000416 };
	CHECK(keyboard_read(&keyboard, &packet, 0) == 0);
	CHECK(keyboard_find(&keyboard, 'A', &key) && key.keycode == 8 && key.shift);
	CHECK(keyboard_find(&keyboard, '1', &key) && key.keycode == 9 && !key.shift);
	CHECK(!keyboard_find(&keyboard, wanted[0], &key));
	CHECK(keyboard_place(&keyboard, wanted, 2, &again) == 1 && !again);
	CHECK(keyboard_find(&keyboard, wanted[0], &key) && key.keycode == 10);
	keyboard.last = 11;
	CHECK(keyboard_read(&keyboard, &packet, 0) < 0);
}

static void names(void)
{
	static const struct {
		const char *name;
		uint32_t keysym;
	} rows[] = { { "Enter", 0xff0d }, { "return", 0xff0d },  { "ctrl", 0xffe3 },
		     { "F12", 0xffc9 },   { "KeyQ", 'q' },       { "Q", 'Q' },
		     { "é", 0xe9 },       { "你", 0x1004f60 },   { "😀", 0x101f600 },
		     { "+", '+' },        { "Page_Up", 0xff55 }, { "F36", 0 },
		     { "", 0 },           { "nokey", 0 },        { "KeyÄ", 0 } };
	struct err err;
	for (size_t i = 0; i < COUNT(rows); i++)
		CHECK(key_named(rows[i].name, &err) == rows[i].keysym);
}

int main(void)
{
	packets();
	requests();
	setup();
	properties();
	outputs();
	keyboards();
	names();
	return tap_done();
}
