/* utf8.h - telling valid UTF-8 from other bytes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The length (1 to 4) of the valid character at text, or 0 where there is none; len > 0. */
size_t utf8_char(const char *text, size_t len);

/* How many bytes at text are valid UTF-8. */
size_t utf8_span(const char *text, size_t len);

/* How much of a string to keep where there is room for max bytes: no half character is left at its end. */
size_t utf8_fit(const char *text, size_t max);

bool utf8_valid(const char *text, size_t len);

/* The longest tail (0 to 3 bytes) that may be the beginning of a character still to come. */
size_t utf8_partial(const char *text, size_t len);

/* How many bytes at text, where no character is, one U+FFFD stands for (the WHATWG rule). */
size_t utf8_bad(const char *text, size_t len);
