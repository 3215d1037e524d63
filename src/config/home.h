/* home.h - where the product's own files are: $AIO_HOME, beside an installed program, or the source
 * tree. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

void home_find(char *to, size_t room);

/* The path of the product's Python. False: it is not there, or it cannot be used. It is a link to the Python
 * that its packages were made for, in the place of which a box of an image may have none or another. */
bool home_python(const char *home, char *to, size_t room);

/* What an image needs for it, such as "Python 3.11 at /usr/bin/python3"; "" if there are no packages. */
void home_python_needs(const char *home, char *to, size_t room);
