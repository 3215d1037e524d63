/* size.h - sizes as people write them: 1048576, 256M, 1.5G, 2GiB, 500 kB. */
#pragma once
#include <stdint.h>

#define SIZE_SYNTAX "bytes, or a number with K, M, G or T"

/* A whole number of bytes; units are powers of 1024, in either case, also as KiB or KB. -1: it is
 * none, or beyond 2^53. */
int size_parse(const char *text, int64_t *ret);
