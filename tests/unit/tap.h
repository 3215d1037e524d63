/* tap.h - checks that print TAP: CHECK(cond) as often as needed, then `return tap_done();`. */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failures;

/* Each counts and returns whether it held; CHECK_STR also shows the two texts that differ. */
#define CHECK(cond)          tap_check(cond, __FILE__, __LINE__, #cond)
#define CHECK_STR(got, want) tap_check_str(got, want, __FILE__, __LINE__, #got " is " #want)

static inline bool tap_check(bool ok, const char *file, int line, const char *text)
{
	printf("%s %d - %s:%d %s\n", ok ? "ok" : "not ok", ++tap_count, file, line, text);
	tap_failures += !ok;
	return ok;
}

static inline bool tap_check_str(const char *got, const char *want, const char *file, int line,
				 const char *text)
{
	bool ok = got && want ? !strcmp(got, want) : got == want;
	tap_check(ok, file, line, text);
	if (!ok)
		printf("# got '%s', want '%s'\n", got ? got : "NULL", want ? want : "NULL");
	return ok;
}

static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	fflush(stdout); /* a leak ends the program before stdio does */
	return tap_failures != 0;
}
