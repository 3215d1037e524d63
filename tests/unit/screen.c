/* What programs draw, as text; and that a replay of it draws the same again. */
#include "term/screen.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
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
static void feed(struct screen *screen, const char *data, size_t len, uint32_t most)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = most ? 1 + roll(most) : len;
		n = n < len - at ? n : len - at;
		auto_free char *copy =
			xmalloc(n); /* of this size, for ASan to see reads beyond it */
		memcpy(copy, data + at, n);
		screen_feed(screen, copy, n);
	}
}

/* Everything there is to know about a screen. */
static void dump(struct buf *to, const struct screen *screen)
{
	int col, row;
	to->len = 0;
	screen_cursor(screen, &col, &row);
	buf_printf(to, "%d %d %d\n", col, row, screen_alternate(screen));
	screen_text(screen, to);
	buf_str(to, "\n--\n");
	screen_replay(screen, to);
}

static bool replays(const struct screen *screen, int cols, int rows)
{
	auto_buf struct buf replay = BUF(1 << 24), one = BUF(1 << 24), two = BUF(1 << 24);
	struct screen *again = screen_new(cols, rows);
	screen_replay(screen, &replay);
	feed(again, replay.data, replay.len, 0);
	dump(&one, screen);
	dump(&two, again);
	screen_free(again);
	bool ok = one.len == two.len && !memcmp(one.data, two.data, one.len);
	if (!ok)
		printf("# first:\n%s\n# again:\n%s\n", one.data, two.data);
	return ok;
}

/* The screen of data shows want, with the cursor there, in whatever pieces data comes. */
static bool shows(int cols, int rows, const char *data, size_t len, const char *want, int want_col,
		  int want_row)
{
	static const uint32_t most[] = { 0, 1, 3, 20 };
	bool ok = true;
	for (size_t i = 0; i < COUNT(most) && ok; i++) {
		auto_buf struct buf text = BUF(1 << 20);
		struct screen *screen = screen_new(cols, rows);
		int col, row;
		feed(screen, data, len, most[i]);
		screen_text(screen, &text);
		screen_cursor(screen, &col, &row);
		ok = !strcmp(text.data ? text.data : "", want) && col == want_col &&
		     row == want_row;
		if (!ok)
			printf("# in pieces of %u, cursor %d,%d: '%s'\n", most[i], col, row,
			       text.data);
		ok &= replays(screen, cols, rows);
		screen_free(screen);
	}
	return ok;
}

#define SHOWS(cols, rows, data, want, col, row) \
	CHECK(shows(cols, rows, data, sizeof(data) - 1, want, col, row))

static void text(void)
{
	SHOWS(10, 3, "", "", 0, 0);
	SHOWS(10, 3, "hello", "hello", 5, 0);
	SHOWS(10, 3, "a\r\n\r\nb  ", "a\n\nb", 3, 2);
	SHOWS(10, 3, "1\r\n2\r\n3\r\n4", "2\n3\n4", 1, 2);
	SHOWS(5, 3, "abcde", "abcde", 4, 0);
	SHOWS(5, 3, "abcdef", "abcde\nf", 1, 1);
	SHOWS(5, 3, "abcde\r\nf", "abcde\nf", 1, 1);
	SHOWS(5, 3, "abcde" CSI "Kf", "abcde\nf", 1, 1);
	SHOWS(5, 3, "abcde\bX", "abcXe", 4, 0);
	SHOWS(5, 3, CSI "?7labcdefg", "abcdg", 4, 0);
	SHOWS(20, 3, "a\tb\tc\b\bX", "a       b      Xc", 16, 0);
	SHOWS(20, 3, CSI "3g" CSI "5G" ESC "H\ra\tb\tc", "a   b              c", 19, 0);
	SHOWS(10, 3, "abc\r" CSI "4hXY" CSI "4lZ", "XYZbc", 3, 0);
	SHOWS(10, 3, "ab" CSI "3bc", "abbbbc", 6, 0);
	SHOWS(10, 3, CSI "5b", "", 0, 0);
	SHOWS(1, 1, "abc", "c", 0, 0);
	SHOWS(10, 2, "bell\a nul\0 del\177", "bell nul d\nel", 2, 1);
}

static void unicode(void)
{
	SHOWS(10, 3, "\303\251t\303\251", "\303\251t\303\251", 3, 0);
	SHOWS(10, 3, "\346\227\245\346\234\254", "\346\227\245\346\234\254", 4, 0);
	SHOWS(5, 3, "\346\227\245\346\234\254\350\252\236",
	      "\346\227\245\346\234\254\n\350\252\236", 2, 1);
	SHOWS(10, 3, "\346\227\245\346\234\254\rx", "x \346\234\254", 1, 0);
	SHOWS(10, 3, "\346\227\245\346\234\254" CSI "2Gx", " x\346\234\254", 2, 0);
	SHOWS(1, 3, "\346\227\245", "\357\277\275", 0, 0);
	SHOWS(10, 3, "e\314\201te\314\201", "e\314\201te\314\201", 3, 0);
	SHOWS(3, 3, "abe\314\201x", "abe\314\201\nx", 1, 1);
	SHOWS(4, 3, "ab\343\201\213\343\202\231x", "ab\343\201\213\343\202\231\nx", 1, 1);
	SHOWS(10, 3, "\314\201a", "a", 1, 0);
	SHOWS(10, 3, "\377\302\205\342\202x", "\357\277\275\n\357\277\275x", 2, 1);
	SHOWS(10, 3, ESC "(0lqqk\r\nx  x" ESC "(B\r\nx",
	      "\342\224\214\342\224\200\342\224\200\342\224\220\n"
	      "\342\224\202  \342\224\202\nx",
	      1, 2);
	SHOWS(10, 3, ESC ")0q\016q\017q", "q\342\224\200q", 3, 0);
}

static void moving(void)
{
	SHOWS(10, 5, CSI "3;4Hx", "\n\n   x", 4, 2);
	SHOWS(10, 5, CSI "99;99Hx" CSI "Hy", "y\n\n\n\n         x", 1, 0);
	SHOWS(10, 5, "abc" CSI "2D" CSI "Bx" CSI "Ay" CSI "2Cz", "aby  z\n x", 6, 0);
	SHOWS(10, 5,
	      "abc" CSI "E"
	      "d" CSI "2Fe" CSI "4Gf" CSI "3df",
	      "ebcf\nd\n    f", 5, 2);
	SHOWS(10, 5, "a" ESC "7" CSI "5;5Hb" ESC "8c", "ac\n\n\n\n    b", 2, 0);
	SHOWS(10, 5, "a" CSI "s" CSI "5;5Hb" CSI "uc", "ac\n\n\n\n    b", 2, 0);
	SHOWS(10, 3, "a" ESC "Db" ESC "Ec" ESC "Md", "a\n d\nc", 2, 1);
}

static void erasing(void)
{
	SHOWS(6, 3, "aaaaaa\r\nbbbbbb\r\ncccccc" CSI "2;3H" CSI "K", "aaaaaa\nbb\ncccccc", 2, 1);
	SHOWS(6, 3, "aaaaaa\r\nbbbbbb\r\ncccccc" CSI "2;3H" CSI "1K", "aaaaaa\n   bbb\ncccccc", 2,
	      1);
	SHOWS(6, 3, "aaaaaa\r\nbbbbbb\r\ncccccc" CSI "2;3H" CSI "J", "aaaaaa\nbb", 2, 1);
	SHOWS(6, 3, "aaaaaa\r\nbbbbbb\r\ncccccc" CSI "2;3H" CSI "1J", "\n   bbb\ncccccc", 2, 1);
	SHOWS(6, 3, "aaaaaa\r\nbbbbbb\r\ncccccc" CSI "2;3H" CSI "2J", "", 2, 1);
	SHOWS(6, 3, "abcdef" CSI "3G" CSI "2P", "abef", 2, 0);
	SHOWS(6, 3, "abcdef" CSI "3G" CSI "2@", "ab  cd", 2, 0);
	SHOWS(6, 3, "abcdef" CSI "3G" CSI "2X", "ab  ef", 2, 0);
	SHOWS(6, 3, "a\346\227\245b" CSI "2G" CSI "P", "a b", 1, 0);
	SHOWS(6, 3, "abcd\346\227\245\r" CSI "@", " abcd", 0, 0);
}

static void scrolling(void)
{
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2;4r" CSI "4;1H\nx", "1\n3\n4\nx\n5", 1, 3);
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2;4r" CSI "2;1H" ESC "Mx", "1\nx\n2\n3\n5", 1, 1);
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2;1H" CSI "2L", "1\n\n\n2\n3", 0, 1);
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2;1H" CSI "2M", "1\n4\n5", 0, 1);
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2S", "3\n4\n5", 1, 4);
	SHOWS(3, 5, "1\r\n2\r\n3\r\n4\r\n5" CSI "2T", "\n\n1\n2\n3", 1, 4);
	SHOWS(3, 5, CSI "2;4r" CSI "?6h" CSI "1;1Hx" CSI "9;1Hy" CSI "?6l", "\nx\n\ny", 0, 0);
	SHOWS(3, 5, CSI "2;4r" CSI "?6h" CSI "2;2Hx", "\n\n x", 2, 2);
	SHOWS(3, 5, CSI "999999S" CSI "999999T" CSI "999999L" CSI "999999Mx", "x", 1, 0);
}

static void full_screen(void)
{
	/* As vim does: alternate screen, clear, tildes, a status line, the cursor home. */
	SHOWS(12, 4,
	      "$ vim f" CSI "?1049h" CSI "22;0;0t" CSI "?1h" ESC "=" CSI "?2004h" CSI "1;4r" CSI
	      "?12h" CSI "?25h" CSI "m" CSI "H" CSI "2J" CSI "2;1H" CSI "94m~" CSI "3;1H~" CSI
	      "m" CSI "4;1H\"f\" [New]" CSI "1;1H",
	      "\n~\n~\n\"f\" [New]", 0, 0);
	SHOWS(12, 4, "$ vim" CSI "?1049h" CSI "Hfile" CSI "?1049l\r\n$ ", "$ vim\n$", 2, 1);
	SHOWS(12, 4, "one" CSI "?47htwo" CSI "?47lthree", "one   three", 11, 0);
	SHOWS(12, 4, "x" CSI "?1049hyy" ESC "cz", "z", 1, 0);
	SHOWS(12, 4, CSI "41mred" CSI "?1049h" CSI "m" CSI "2;2H" CSI "44mblue" CSI "K", "\n blue",
	      5, 1);
}

static bool alternate_after(const char *data)
{
	struct screen *screen = screen_new(80, 24);
	screen_feed(screen, data, strlen(data));
	bool on = screen_alternate(screen);
	screen_free(screen);
	return on;
}

static void alternate(void)
{
	CHECK(!alternate_after("text"));
	CHECK(alternate_after(CSI "?1049h"));
	CHECK(alternate_after(CSI "?1;1047;25h"));
	CHECK(!alternate_after(CSI "?1049h" CSI "?1049l"));
	CHECK(!alternate_after(CSI "1049h"));
	CHECK(!alternate_after(CSI "?1049h" ESC "c"));
}

/* The replay of data on a small screen. */
static bool replay_is(const char *data, const char *want)
{
	auto_buf struct buf got = BUF(1 << 16);
	struct screen *screen = screen_new(8, 2);
	screen_feed(screen, data, strlen(data));
	screen_replay(screen, &got);
	bool ok = !strcmp(got.data, want);
	if (!ok)
		printf("# got '%s'\n", got.data);
	ok &= replays(screen, 8, 2);
	screen_free(screen);
	return ok;
}

static void attributes(void)
{
	CHECK(replay_is("a" CSI "1;31mb" CSI "0mc", "a" CSI "0;1;31mb" CSI "mc\r\n" CSI "1;4H"));
	CHECK(replay_is(CSI "38;5;200;48;2;1;2;3;4:3mx",
			CSI "0;4:3;38;5;200;48;2;1;2;3mx" CSI "m\r\n" CSI "1;2H" CSI
			    "0;4:3;38;5;200;48;2;1;2;3m"));
	CHECK(replay_is(CSI "38:2::9:8:7;58:2::1:1:1;2mx" CSI "m",
			CSI "0;2;38;2;9;8;7mx" CSI "m\r\n" CSI "1;2H"));
	CHECK(replay_is(CSI "38:5:9m" CSI "97;103mx" CSI "39;49m",
			CSI "0;97;103mx" CSI "m\r\n" CSI "1;2H"));
	CHECK(replay_is(CSI "38m" CSI "38;5m" CSI "48;2;1m" CSI "38;9;7mx" CSI "m",
			CSI "0;7mx" CSI "m\r\n" CSI "1;2H"));
	CHECK(replay_is(CSI "1;2;3;4;5;7;8;9;53m" CSI "22;23;24;25;27;28;29;55mx",
			"x\r\n" CSI "1;2H"));
	CHECK(replay_is(CSI "44mx" CSI "K" CSI "m", CSI "0;44mx" CSI "K" CSI "m\r\n" CSI "1;2H"));
	CHECK(replay_is("abcdefgh", "abcdefgh\r\n" CSI "1;8Hh"));
	CHECK(replay_is("1\r\n2\r\n3", "1\r\n2\r\n3" CSI "2;2H"));
	CHECK(replay_is(CSI "?25l" CSI "?1002h" CSI "?1006h" CSI "?2004h" CSI "?1h" CSI "?7l" CSI
			    "4 q",
			"\r\n" CSI "1;1H" CSI "?1h" CSI "?7l" CSI "?25l" CSI "?2004h" CSI
			"?1002h" CSI "?1006h" CSI "4 q"));
	CHECK(replay_is("ab" CSI "?1049h" CSI "Hc",
			"ab\r\n" CSI "1;3H" CSI "?1049h" CSI "1;1Hc" CSI "1;2H"));
}

static void scrollback(void)
{
	auto_buf struct buf replay = BUF(1 << 20);
	struct screen *screen = screen_new(20, 5);
	for (int i = 1; i <= 2000; i++) {
		char line[32];
		int len = snprintf(line, sizeof line, "line %d\r\n", i);
		screen_feed(screen, line, (size_t)len);
	}
	screen_replay(screen, &replay);
	/* 4 lines are to be seen, above the cursor's; 1000 more are kept. */
	CHECK(!strncmp(replay.data, "line 997\r\n", 10));
	CHECK(strstr(replay.data, "line 2000\r\n"));
	CHECK(replays(screen, 20, 5));
	screen_feed(screen, CSI "3J", 4);
	replay.len = 0;
	screen_replay(screen, &replay);
	CHECK(!strncmp(replay.data, "line 1997\r\n", 11));
	screen_free(screen);
}

static bool resized(const char *data, int cols, int rows, const char *want, int want_col,
		    int want_row)
{
	auto_buf struct buf text = BUF(1 << 16);
	struct screen *screen = screen_new(10, 4);
	int col, row;
	screen_feed(screen, data, strlen(data));
	screen_resize(screen, cols, rows);
	screen_text(screen, &text);
	screen_cursor(screen, &col, &row);
	bool ok = !strcmp(text.data ? text.data : "", want) && col == want_col && row == want_row;
	if (!ok)
		printf("# cursor %d,%d: '%s'\n", col, row, text.data);
	ok &= replays(screen, cols, rows);
	screen_free(screen);
	return ok;
}

static void resizing(void)
{
	CHECK(resized("1\r\n2\r\n3\r\n4", 10, 2, "3\n4", 1, 1));
	CHECK(resized("1\r\n2", 10, 2, "1\n2", 1, 1));
	CHECK(resized("1\r\n2\r\n3\r\n4" CSI "H", 10, 2, "1\n2", 0, 0));
	CHECK(resized("1\r\n2\r\n3\r\n4\r\n5\r\n6", 10, 6, "1\n2\n3\n4\n5\n6", 1, 5));
	CHECK(resized("1\r\n2\r\n3\r\n4\r\n5" CSI "H", 10, 6, "2\n3\n4\n5", 0, 0));
	CHECK(resized("abcdefghij", 5, 4, "abcde", 4, 0));
	CHECK(resized("abcd\346\227\245", 5, 4, "abcd", 4, 0));
	CHECK(resized("abcdefghij", 20, 4, "abcdefghij", 9, 0));
	CHECK(resized(CSI "2;3r" CSI "4;1Hx", 10, 2, "\nx", 1, 1));
	CHECK(resized("1", 0, -5, "1", 0, 0));
	CHECK(resized("1", 100000, 100000, "1", 1, 0));
}

static void keep(void *arg, const char *data, size_t len)
{
	buf_add(arg, data, len);
}

static void answers(void)
{
	auto_buf struct buf got = BUF(1000);
	struct screen *screen = screen_new(80, 24);
	const char *asks = CSI "6n" CSI "c" CSI "3;4H" CSI "6n" CSI "?6n" CSI "5n" CSI ">c";
	screen_feed(screen, asks, strlen(asks));
	screen_on_answer(screen, keep, &got);
	screen_feed(screen, asks, strlen(asks));
	CHECK_STR(got.data, CSI "3;4R" CSI "?1;2c" CSI "3;4R" CSI "?3;4R" CSI "0n" CSI ">0;0;0c");
	screen_free(screen);
}

static void full(void)
{
	auto_buf struct buf small = BUF(3);
	struct screen *screen = screen_new(80, 24);
	screen_feed(screen, "hello", 5);
	CHECK(screen_text(screen, &small) == -1);
	CHECK(screen_replay(screen, &small) == -1);
	screen_free(screen);
}

/* Random bytes, mostly ones that mean something, give the same in whatever pieces they come, and
 * what they draw is drawn again by its replay. */
static void random_bytes(void)
{
	static const char some[] =
		"ab \t\r\n\b\033\033\033[[[[;:?0123459@ABCDGHJKLMPSTXbdfghlmrsu78DEM"
		"\302\233\342\202\254\346\227\245\314\201\377(0)\016\017";
	static const char *const whole[] = {
		CSI "?1049h", CSI "?1049l", CSI "?6h", CSI "2;4r",     CSI "1;31;44m",
		CSI "K",      CSI "2J",     CSI "4h",  "\346\227\245", ESC "7",
		ESC "8",      CSI "?7l",    CSI "!p",  CSI "3;3H",     "text",
	};
	bool same = true, replay = true;
	for (int round = 0; round < 3000 && same && replay; round++) {
		int cols = 1 + (int)roll(12), rows = 1 + (int)roll(6);
		auto_buf struct buf data = BUF(1 << 16), one = BUF(1 << 20), two = BUF(1 << 20);
		for (uint32_t n = roll(120); n; n--) {
			if (roll(4))
				buf_add(&data, some + roll(sizeof some - 1), 1);
			else
				buf_str(&data, whole[roll(COUNT(whole))]);
		}
		struct screen *a = screen_new(cols, rows), *b = screen_new(cols, rows);
		feed(a, data.data, data.len, 0);
		feed(b, data.data, data.len, 1 + roll(9));
		dump(&one, a);
		dump(&two, b);
		same = one.len == two.len && !memcmp(one.data, two.data, one.len);
		replay = replays(a, cols, rows);
		screen_free(a);
		screen_free(b);
	}
	CHECK(same);
	CHECK(replay);
}

int main(void)
{
	text();
	unicode();
	moving();
	erasing();
	scrolling();
	full_screen();
	alternate();
	attributes();
	scrollback();
	resizing();
	answers();
	full();
	random_bytes();
	screen_free(NULL);
	return tap_done();
}
