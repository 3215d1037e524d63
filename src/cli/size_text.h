/* size_text.h - bytes for people: 512B, 1.5M. */
#pragma once
#include <stddef.h>

/* Returns `to`. */
const char *size_text(double bytes, char *to, size_t room);
