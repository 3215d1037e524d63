/* base64.h - RFC 4648, both alphabets. */
#pragma once
#include <stddef.h>

struct buf;

/* Appends the standard encoding, with padding. -1 when the buffer is full. */
int base64_encode(struct buf *to, const void *data, size_t len);

/* Appends the URL-safe encoding without padding. */
int base64url_encode(struct buf *to, const void *data, size_t len);

/* Appends what text stands for. White space is skipped, padding may be missing. -1 on any other
 * character, a wrong length, bits left over, or a full buffer. */
int base64_decode(struct buf *to, const char *text, size_t len);

/* As above for the URL-safe alphabet; no white space, no padding. */
int base64url_decode(struct buf *to, const char *text, size_t len);
