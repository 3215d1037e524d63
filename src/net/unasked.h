/* unasked.h - what Chromium tries to reach on its own, although no page or person asked for it: updates of
 * extensions, and whether IPv6 works. Reports of refused attempts leave it out. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>

bool unasked_name(const char *name);
bool unasked_address(const struct in6_addr *address, unsigned port);
