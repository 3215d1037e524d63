/* regex.h - regular expressions (PCRE2) with limits, so that none takes for ever. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct regex; /* for one thread at a time */

enum regex_flag {
	REGEX_LITERAL = 1 << 0, /* the pattern is plain text */
	REGEX_FOLD = 1 << 1,    /* upper and lower case are the same */
	REGEX_LINES =
		1 << 2, /* for text of many lines: ^ and $ match at each, . matches newlines */
};

/* NULL with ERR_PATTERN for what is no regular expression, or too large. */
struct regex *regex_compile(const char *pattern, size_t len, unsigned flags, struct err *err);
void regex_free(struct regex *regex); /* NULL is fine */

/* Looks for a match at or after `from`: 1 with its bounds, 0 when there is none, -1 with ERR_PATTERN when
 * that takes more steps than are allowed. `valid`: the text is known to be UTF-8, which is quicker;
 * other text is fine. */
int regex_find(struct regex *regex, const char *text, size_t len, size_t from, bool valid,
	       size_t *ret_start, size_t *ret_end, struct err *err);
