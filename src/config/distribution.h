/* distribution.h - the system around this process: in a box, that of its image. */
#pragma once
#include <stdbool.h>

/* Whether it has the C library that the product's own runtimes need. Images with musl, such as Alpine's, do
 * not. */
bool distribution_has_glibc(void);

/* How packages are added to it, for messages: "apk add". */
const char *distribution_add(void);
