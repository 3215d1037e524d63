/* excerpt.h - long output cut in the middle, in characters. */
#pragma once
#include <stdint.h>

struct stream;

/* Leaves out the middle of a stream that has more than max characters (0: no limit), with a mark that
 * says how many bytes are missing. */
void excerpt_shorten(struct stream *stream, int64_t max);
