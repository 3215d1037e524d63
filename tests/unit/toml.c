#include "base/toml.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

static const struct {
	const char *text;
	int line; /* that is wrong; 0: it is TOML */
} rows[] = {
	{ "", 0 },
	{ "\n\n# only this", 0 },
	{ "a = 1", 0 },
	{ "a=1\r\nb = \"x\" # with a comment\n", 0 },
	{ "\"a b\" = 'c'\n'd'.e . f = true", 0 },
	{ "1 = 1", 0 },
	{ "[a.\"b c\"]\nx = 1\n[[list]]\n[ list . y ]", 0 },
	{ "a = [1, 2,\n # more\n 3,\n]", 0 },
	{ "a = { b = 1, c = { d = [] } }", 0 },
	{ "a = {}", 0 },
	{ "a = \"\"\"\none \"two\" \\\n   three\"\"\"\"\"", 0 },
	{ "a = '''\none \\ '' two'''", 0 },
	{ "a = \"\\u00e9\\U0001F600\\t\\\"\"", 0 },
	{ "a = +1_000\nb = 0xdead_BEEF\nc = 0o17\nd = 0b11\ne = -0", 0 },
	{ "a = 1.5e-3\nb = -inf\nc = nan\nd = 1e6\ne = 0.1", 0 },
	{ "a = 1979-05-27T07:32:00.5-07:00\nb = 1979-05-27 07:32:00Z\nc = 1979-05-27\nd = 07:32:00",
	  0 },
	{ "a", 1 },
	{ "a =", 1 },
	{ "a = \n1", 1 },
	{ "= 1", 1 },
	{ "a = 1 b = 2", 1 },
	{ "ok = 1\na = 01", 2 },
	{ "a = 1__0", 1 },
	{ "a = _1", 1 },
	{ "a = 1_", 1 },
	{ "a = 1.", 1 },
	{ "a = .5", 1 },
	{ "a = 0x", 1 },
	{ "a = yes", 1 },
	{ "a = 'x\ny'", 1 },
	{ "a = \"x", 1 },
	{ "a = \"\\q\"", 1 },
	{ "a = \"\\ud800\"", 1 },
	{ "a = \"\\u12\"", 1 },
	{ "a = \"\"\"x", 1 },
	{ "[a", 1 },
	{ "[[a]", 1 },
	{ "[]", 1 },
	{ "[a.]", 1 },
	{ "a. = 1", 1 },
	{ "a = [1 2]", 1 },
	{ "a = [1,\n2", 2 },
	{ "a = [,]", 1 },
	{ "a = { b = 1, }", 1 },
	{ "a = { b = 1\n}", 1 },
	{ "a = 1979-05-27T07", 1 },
	{ "a = 1 # \x01", 1 },
	{ "\n\n{\"json\": 1}", 3 },
	{ "a\rb = 1", 1 },
};

static int said_line(const struct err *err)
{
	const char *at = strstr(err->msg, "line ");
	int line = 0;
	for (at = at ? at + 5 : ""; *at >= '0' && *at <= '9'; at++)
		line = line * 10 + *at - '0';
	return line;
}

static void check_rows(void)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = { 0 };
		int result = toml_check(rows[i].text, strlen(rows[i].text), &err);
		if (!CHECK((result == 0) == !rows[i].line && said_line(&err) == rows[i].line))
			printf("# of '%s': %s\n", rows[i].text, err.msg);
	}
}

static void check_depth(void)
{
	auto_buf struct buf text = BUF(1 << 20);
	struct err err;
	buf_str(&text, "a = ");
	for (int i = 0; i < 100000; i++)
		buf_str(&text, "[");
	CHECK(toml_check(text.data, text.len, &err) < 0);
	CHECK(toml_check("a = '\0'", 8, &err) < 0);
	CHECK(toml_check("a = '\xff'", 8, &err) < 0);
}

static void check_string(void)
{
	auto_buf struct buf text = BUF(1000);
	struct err err;
	buf_str(&text, "a = ");
	toml_string(&text, "q\" \\ \n\t\x7f gr\xc3\xbcn");
	CHECK(!strcmp(text.data, "a = \"q\\\" \\\\ \\u000A\\u0009\\u007F gr\xc3\xbcn\""));
	CHECK(toml_check(text.data, text.len, &err) == 0);
}

int main(void)
{
	check_rows();
	check_depth();
	check_string();
	return tap_done();
}
