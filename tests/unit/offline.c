#include "net/offline.h"

#include <string.h>

#include "tap.h"

static const char *const wrong[] = {
	"",
	"denied",
	"denied  times=1 (this sandbox has no network)",
	"denied A.example times=1 (this sandbox has no network)",
	"denied a\"b times=1 (this sandbox has no network)",
	"denied a.example times=0 (this sandbox has no network)",
	"denied a.example times=-1 (this sandbox has no network)",
	"denied a.example times=99999999999999999999 (this sandbox has no network)",
	"denied a.example times=1 (this sandbox has no network",
	"denied a.example times=1 (this sandbox has no network) more",
	"x denied a.example times=1 (this sandbox has no network)",
};

int main(void)
{
	char name[DNS_NAME_MAX + 1], line[600];
	int64_t times = 0;
	CHECK(offline_parse("denied a-b_c.example.com times=12 (this sandbox has no network)", name,
			    &times) &&
	      !strcmp(name, "a-b_c.example.com") && times == 12);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(!offline_parse(wrong[i], name, &times));
	for (int len = DNS_NAME_MAX; len <= DNS_NAME_MAX + 1; len++) {
		snprintf(line, sizeof line, "denied %0*d times=1 (this sandbox has no network)",
			 len, 0);
		CHECK(offline_parse(line, name, &times) == (len == DNS_NAME_MAX));
	}
	CHECK(!offline_refused(0) && !offline_refused(offline_moment()));
	return tap_done();
}
