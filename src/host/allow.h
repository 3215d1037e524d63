/* allow.h - the names that a box may reach, as people write them. */
#pragma once
#include <jansson.h>

struct err;

/* Checks each of a list of strings: a host name, *.DOMAIN or *, optionally with :PORT. where: what the
 * list is called. */
int allow_check(const json_t *names, const char *where, struct err *err);
