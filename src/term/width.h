/* width.h - how many columns of a terminal a character takes. */
#pragma once
#include <stdint.h>

/* 0 for a mark that joins the character before it, 2 for a wide one, else 1; c is printable. */
int width_char(uint32_t c);
