/* home.h - where the product's own files are: $AIO_HOME, beside an installed program, or the source
 * tree. */
#pragma once
#include <stddef.h>

void home_find(char *to, size_t room);
