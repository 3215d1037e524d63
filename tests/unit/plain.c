/* What comes out of a terminal, as plain text: whole, byte by byte and in random pieces. */
#include "term/plain.h"

#include <stdlib.h>

#include "base/own.h"
#include "tap.h"

#define ESC "\033"
#define CSI "\033["

static uint32_t seed = 1;

static uint32_t roll(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* Pieces are of up to most bytes, at random; of one byte each for 1; all is one for 0. */
static void convert(struct buf *to, const char *data, size_t len, uint32_t most)
{
	struct plain plain;
	plain_init(&plain);
	for (size_t at = 0, n; at < len; at += n) {
		n = most ? 1 + roll(most) : len;
		n = n < len - at ? n : len - at;
		auto_free char *copy =
			xmalloc(n); /* of this size, for ASan to see reads beyond it */
		memcpy(copy, data + at, n);
		if (plain_feed(&plain, copy, n, to) < 0)
			break;
	}
	(void)plain_finish(&plain, to);
	plain_done(&plain);
}

static bool same(const char *data, size_t len, const char *want, size_t want_len)
{
	static const uint32_t most[] = { 0, 1, 2, 3, 7, 100, 5000 };
	bool ok = true;
	for (size_t i = 0; i < COUNT(most); i++) {
		auto_buf struct buf got = BUF(1 << 22);
		convert(&got, data, len, most[i]);
		if (got.len == want_len && !memcmp(got.len ? got.data : "", want, want_len))
			continue;
		printf("# in pieces of %u: '%.200s'\n", most[i], got.data ? got.data : "");
		ok = false;
	}
	return ok;
}

/* Both are literals, and may hold NUL. */
#define IS(data, want) CHECK(same("" data, sizeof(data) - 1, "" want, sizeof(want) - 1))

static void sequences_go(void)
{
	IS("", "");
	IS("plain\ntext\n", "plain\ntext\n");
	IS("no end", "no end");
	IS(CSI "1;31mred" CSI "0m " CSI "38;2;1;2;3mrgb" CSI "m\n", "red rgb\n");
	IS(CSI "?2004h$ ls\r\n" CSI "?2004l\ra  b\r\n", "$ ls\na  b\n");
	IS(ESC "]0;title\a$ " ESC "]2;other" ESC "\\x\n", "$ x\n");
	IS(ESC "]8;;http://a/\alink" ESC "]8;;\a.\n", "link.\n");
	IS(ESC "]0;never \302\234seen\n", "seen\n");
	IS(ESC "]0;\342\234\234 \r\n stays inside\abut this\n", "but this\n");
	IS(ESC "P1$r0m" ESC "\\a" ESC "_apc\n" ESC "\\b" ESC "^pm" ESC "\\c" ESC "Xsos" ESC "\\d\n",
	   "abcd\n");
	IS(ESC "Pdcs\adoes not end it" ESC "\\x\n", "x\n");
	IS(ESC "]cut off" CSI "1mbold\n", "bold\n");
	IS(ESC "]cancelled\030text\n" CSI "12\032text\n", "text\ntext\n");
	IS(ESC "(B" ESC ")0" ESC "=" ESC ">" ESC "7" ESC "8" ESC "M" ESC "#8" ESC " Fx\n", "x\n");
	IS("a\302\2331;31mb\302\233mc\302\205d\302\200e\n", "abcde\n");
	IS("\302\2350;title\302\234x\302\220dcs\302\234y\n", "xy\n");
	IS(CSI "1;2\nHx" CSI "?25\bhy\n", "\ny\n");
	IS(CSI "1\303\251t\303\251\n", "\303\251t\303\251\n");
	IS(CSI
	   "1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30;31;32"
	   ";33;34mx" CSI "99999999999999999999mx\n",
	   "xx\n");
	IS("bell\a nul\0 del\177 vt\v ff\f so\016\017 end\n", "bell nul del vt ff so end\n");
	IS("unfinished" CSI "12;", "unfinished");
	IS("unfinished" ESC "]0;title", "unfinished");
	IS("up" CSI "2A down" CSI "3B home" CSI "H" CSI "2J" CSI "5;7H" CSI "Ethere\n",
	   "up down homethere\n");
}

static void lines_end(void)
{
	IS("a\r\nb\r\r\nc\n\nd\r\r\r\n", "a\nb\nc\n\nd\n");
	IS("\r\n\r\n", "\n\n");
	IS("\n\r", "\n");
	IS("spaces stay  \r\n \tin unedited lines \t\n",
	   "spaces stay  \n \tin unedited lines \t\n");
	IS("also without an end  \r", "also without an end  ");
}

static void overwriting(void)
{
	IS("10%\r20%\r100%\n", "100%\n");
	IS("10%\r20%\r100%\r\n", "100%\n");
	IS("10%\r20%\r5%", "5%%");
	IS("downloading\rdone\n", "doneloading\n");
	IS("downloading\r" CSI "Kdone\n", "done\n");
	IS("downloading\r" CSI "2Kdone\n", "done\n");
	IS("downloading" CSI "2K\rdone\n", "done\n");
	IS("downloading" CSI "1G" CSI "0Jdone\n", "done\n");
	IS("downloading" CSI "2Kdone\n", "           done\n");
	IS("downloading\r           \rdone\n", "done\n");
	IS("downloading\r           \r\n", "\n");
	IS("match" CSI "K" CSI "m" CSI "K rest\n", "match rest\n");
	IS("abc\b\b\bxyz\n", "xyz\n");
	IS("abc\b\b\b\b\b\bxy\n", "xyc\n");
	IS("typo\b \bed\n", "typed\n");
	IS("l\bls\b" CSI "K -la\n", "l -la\n");
	IS("N\bNA\bAM\bM_\bE\n", "NAME\n");
	IS("abc\r" CSI "1Kx\n", "xbc\n");
	IS("abcdef" CSI "3D" CSI "1Kx\n", "   xef\n");
	IS("abcdef" CSI "4D" CSI "Kx\n", "abx\n");
	IS("abc\r" CSI "3Kx\n", "xbc\n");
	IS("\033[7m%\033[27m                   \r \r$ ", "$ ");
}

static void moving(void)
{
	IS("a" CSI "Cb" CSI "3Cc\n", "a b   c\n");
	IS("a" CSI "10Gb" CSI "5Gc\n", "a   c    b\n");
	IS("abc" CSI "GA" CSI "0GB" CSI "3GC\n", "BbC\n");
	IS("abc" CSI "2DX" CSI "99DY\n", "YXc\n");
	IS("end" CSI "40C\n", "end\n");
	IS("abcdef\r" CSI "2P" CSI "2CX\n", "cdXf\n");
	IS("abcdef\r" CSI "2C" CSI "9Px\n", "abx\n");
	IS("abcdef" CSI "3D" CSI "2@xy\n", "abcxydef\n");
	IS("abcdef" CSI "4D" CSI "2Xx\n", "abx ef\n");
	IS("abcdef" CSI "P" CSI "@" CSI "Xg\n", "abcdefg\n");
	IS(CSI "?5C" CSI ">3G" CSI "2 @" CSI "2 Kx\n", "x\n");
}

static void wide_and_marked(void)
{
	/* Two columns for U+65E5 U+672C, one for e and é; U+0301 joins what is before it. */
	IS("\346\227\245\346\234\254\rab\n", "ab\346\234\254\n");
	IS("\346\227\245\346\234\254\ra\n", "a \346\234\254\n");
	IS("\346\227\245\346\234\254\bx\n", "\346\227\245 x\n");
	IS("\303\251t\303\251\rE\n", "Et\303\251\n");
	IS("e\314\201te\314\201\rE\n", "Ete\314\201\n");
	IS("abc\re\314\201\314\202\n", "e\314\201\314\202bc\n");
	IS("abc\r\314\201\n", "\314\201bc\n");
	IS("\360\237\221\251\342\200\215\360\237\221\247\bx\n", "\360\237\221\251\342\200\215 x\n");
	IS("a\tb\rA\n", "A\tb\n");
	IS("a\tb\rAB\n", "AB      b\n");
	IS("abcdefghi\r\tX\n", "abcdefghX\n");
	IS("ab\r\tX\n", "ab      X\n");
	IS("ab\b\tX\n", "ab      X\n");
}

static void not_utf8(void)
{
	IS("\377\376 \200\201 \300\257\n", "\377\376 \200\201 \300\257\n");
	IS("cut \342\202\n", "cut \342\202\n");
	IS("cut \342\202", "cut \342\202");
	IS("cut \360\237\221" ESC "[1mx\n", "cut \360\237\221x\n");
	IS("\302", "\302");
	IS("a\302\n\302\302\233mb\n", "a\302\n\302b\n");
	IS("\233m raw C1 is not UTF-8\n", "\233m raw C1 is not UTF-8\n");
	IS("\342\202\201\342\202 \377\rx\n", "x\342\202 \377\n");
}

struct repeated {
	const char *before, *text;
	size_t times;
	const char *after;
};

static void repeat(struct buf *to, struct repeated what)
{
	buf_str(to, what.before);
	for (size_t i = 0; i < what.times; i++)
		buf_str(to, what.text);
	buf_str(to, what.after);
}

static bool becomes(struct repeated data, struct repeated want)
{
	auto_buf struct buf from = BUF(1 << 22), to = BUF(1 << 22);
	repeat(&from, data);
	repeat(&to, want);
	return same(from.data, from.len, to.data, to.len);
}

#define REPEATED(...) ((struct repeated){ __VA_ARGS__ })

static void long_lines(void)
{
	enum { MAX = PLAIN_LINE_MAX };
	const char *euro = "\342\202\254";
	CHECK(becomes(REPEATED("", "x", 200000, "\n"), REPEATED("", "x", 200000, "\n")));
	CHECK(becomes(REPEATED("", "a\t", 40000, "\n"), REPEATED("", "a\t", 40000, "\n")));
	CHECK(becomes(REPEATED("", "x", MAX, "\rab\n"), REPEATED("ab", "x", MAX - 2, "\n")));
	CHECK(becomes(REPEATED("", "x", MAX + 5, "\rab\n"), REPEATED("", "x", MAX, "abxxx\n")));
	CHECK(becomes(REPEATED("", euro, MAX / 3 + 3, "\rab\n"),
		      REPEATED("", euro, MAX / 3, "ab\342\202\254\n")));
	CHECK(becomes(REPEATED("a\b", "x", MAX + 5, "\rab\n"), REPEATED("", "x", MAX, "abxxx\n")));
	CHECK(becomes(REPEATED("", "50%\r", 50000, "100%\n"), REPEATED("", "", 0, "100%\n")));
	CHECK(becomes(REPEATED("", CSI "9@", 500, "\n"), REPEATED("", "", 0, "\n")));
	CHECK(becomes(REPEATED("a", "\r" CSI "999@", 70, "\n"), REPEATED("", "", 0, "\n")));
}

static void far_right(void)
{
	auto_buf struct buf want = BUF(1 << 20);
	for (int i = 0; i < PLAIN_MOVE_MAX; i++)
		buf_str(&want, i ? " " : "a");
	buf_str(&want, "b\n");
	CHECK(same("a\033[65535Gb\n", 11, want.data, want.len));
	CHECK(same("a\033[9999C\033[9999Cb\n", 17, want.data, want.len));
}

static void full(void)
{
	struct plain plain;
	auto_buf struct buf to = BUF(8);
	plain_init(&plain);
	CHECK(plain_feed(&plain, "1234567\n", 8, &to) == 0);
	CHECK(plain_feed(&plain, "x\n", 2, &to) < 0);
	CHECK(to.full && to.len == 8);
	plain_done(&plain);
}

/* Random bytes, mostly ones that mean something, give the same in whatever pieces they come. */
static void random_bytes(void)
{
	static const char some[] =
		"ab \t\r\n\b\033[[[;:?0159CDGKPXJ@mh]\\\a\302\233\234\205\342\202\254"
		"\346\227\245\314\201\377(B";
	bool ok = true;
	for (int round = 0; round < 2000 && ok; round++) {
		char data[300];
		size_t len = 1 + roll(sizeof data);
		for (size_t i = 0; i < len; i++)
			data[i] = some[roll(sizeof some - 1)];
		auto_buf struct buf whole = BUF(1 << 22);
		convert(&whole, data, len, 0);
		ok = same(data, len, whole.len ? whole.data : "", whole.len);
	}
	CHECK(ok);
}

int main(void)
{
	sequences_go();
	lines_end();
	overwriting();
	moving();
	wide_and_marked();
	not_utf8();
	long_lines();
	far_right();
	full();
	random_bytes();
	return tap_done();
}
