#include "box/ids.h"

#include "host/rootless.h"
#include "tap.h"

/* The ranges, separated by blanks. */
static const char *ranges(const char *users, const char *groups)
{
	static char text[256];
	uint32_t list[8];
	int count = ids_ranges_of(users, groups, list, 8);
	snprintf(text, sizeof text, "%d", count);
	for (int i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), " %u", list[i]);
	return text;
}

static void maps(void)
{
	const char *all = "         0          0 4294967295\n";
	CHECK_STR(ranges(all, all), "-1");
	CHECK_STR(ranges("", ""), "0");
	CHECK_STR(ranges("0 1000 1\n", "0 1000 1\n"), "0");
	CHECK_STR(ranges("0 1000 1\n100000 100000 65536\n", "0 1000 1\n100000 100000 65536\n"),
		  "1 100000");
	CHECK_STR(ranges("0 0 1\n5 5 131071\n", "5 5 131071"), "1 5");
	CHECK_STR(ranges("5 9 131072", "5 9 131072"), "2 5 65541");
	/* One that both have, whatever else there is. */
	CHECK_STR(ranges("100000 1 65536\n300000 1 65536", "300000 1 65536"), "1 300000");
	CHECK_STR(ranges("100000 1 65536", "100001 1 65536"), "0");
	/* Never those of the namespace's root itself. */
	CHECK_STR(ranges("0 1 65536", "0 1 65536"), "0");
	CHECK_STR(ranges("4294900000 1 65536", "4294900000 1 65536"), "1 4294900000");
	CHECK_STR(ranges("1 1 10000000", "1 1 10000000"),
		  "8 1 65537 131073 196609 262145 327681 393217 458753");
}

static const char *subids(const char *text)
{
	static char said[256];
	struct subids list[3];
	size_t count = rootless_subids(text, "me", 1000, list, 3);
	snprintf(said, sizeof said, "%zu", count);
	for (size_t i = 0; i < count; i++)
		snprintf(said + strlen(said), sizeof said - strlen(said), " %u+%u", list[i].first,
			 list[i].count);
	return said;
}

static void files(void)
{
	CHECK_STR(subids(""), "0");
	CHECK_STR(subids("me:100000:65536\n"), "1 100000+65536");
	CHECK_STR(subids("me:100000:65536"), "1 100000+65536");
	CHECK_STR(subids("you:1:2\n1000:7:9\nmen:3:4\nme:5:6\n"), "2 7+9 5+6");
	CHECK_STR(subids("# me:1:2\n\nme\nme:\nme:1\nme:1:\nme:x:1\nme:3:4\n"), "1 3+4");
	CHECK_STR(subids("me:0:65536\nme:5:0\nme:4294967295:2\n"), "0");
	CHECK_STR(subids("me:1:1\nme:2:1\nme:3:1\nme:4:1\n"), "3 1+1 2+1 3+1");
}

int main(void)
{
	maps();
	files();
	return tap_done();
}
