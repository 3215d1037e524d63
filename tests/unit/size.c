#include "base/size.h"

#include "base/own.h"
#include "tap.h"

static const struct {
	const char *text;
	int64_t bytes; /* -1: refused */
} rows[] = {
	{ "0", 0 },
	{ "10", 10 },
	{ "1048576", 1048576 },
	{ "256M", 256ll << 20 },
	{ "256m", 256ll << 20 },
	{ "1.5G", 3ll << 29 },
	{ "2GiB", 2ll << 30 },
	{ "2 GiB", 2ll << 30 },
	{ "500kB", 500ll << 10 },
	{ "7b", 7 },
	{ "1T", 1ll << 40 },
	{ "0.5K", 512 },
	{ "9007199254740992", 1ll << 53 },
	{ "9007199254740994", -1 },
	{ "99999999999T", -1 },
	{ "", -1 },
	{ ".", -1 },
	{ "M", -1 },
	{ "1.5", -1 },
	{ "0.3K", -1 },
	{ "-5", -1 },
	{ "+5", -1 },
	{ "1e9", -1 },
	{ "0x10", -1 },
	{ "inf", -1 },
	{ "nan", -1 },
	{ "1.2.3", -1 },
	{ "5 ", -1 },
	{ " 5", -1 },
	{ "5  M", -1 },
	{ "5 i", -1 },
	{ "5Mi", -1 },
	{ "5iB", -1 },
	{ "5MBs", -1 },
	{ "5P", -1 },
	{ "5@", -1 },
};

int main(void)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		int64_t got = -7;
		int result = size_parse(rows[i].text, &got);
		if (!CHECK(rows[i].bytes < 0 ? result == -1 && got == -7
					     : result == 0 && got == rows[i].bytes))
			printf("# of '%s'\n", rows[i].text);
	}
	return tap_done();
}
