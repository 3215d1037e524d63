/* uids.h - ranges of 65,536 user ids for boxes, which nobody else on the machine was given. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { UIDS_FIRST = 0x40000000, UIDS_LAST = 0x6fff0000, UIDS_COUNT = 65536 };

/* In a user namespace, one that is all its own; else: a range that is neither in `taken` nor overlaps one of /etc/subuid or /etc/subgid: the first after
 * `seed` of them, so that two hosts on a machine do not begin with the same. 0 with err when there is
 * none. */
uint32_t uids_pick(uint32_t seed, const uint32_t *taken, size_t count, struct err *err);

/* The same with the text of those files: pure. */
bool uids_overlap(uint32_t base, const char *subids);
