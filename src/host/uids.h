/* uids.h - ranges of 65,536 user ids for boxes, which nobody else on the machine was given.
 *
 * Several hosts may run on a machine, and their boxes without them. So each range that a box has, running
 * or not, is claimed: a link in a directory of the machine, whose name is the range's number and which
 * points to the state directory of the box's host. Numbers of boxes are those of their ranges, so what is
 * named by them (interfaces, addresses, projects of a quota) is the box's alone as well. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { UIDS_FIRST = 0x40000000, UIDS_LAST = 0x6fff0000, UIDS_COUNT = 65536 };

/* Where the claims of this machine are; made when missing, gone when the machine starts again. */
#define UIDS_CLAIMS "/run/aiobox/uids"

/* Who asks. */
struct uids {
	const char *claims; /* the directory */
	const char *state;  /* of the host: an absolute path */
	uint32_t seed;      /* of this host: where it begins to look */
};

/* In a user namespace, one that is all its own; else one that is neither in `taken` nor claimed by
 * another host that still has its state directory, nor overlaps one of /etc/subuid or /etc/subgid. The
 * one wanted (0: any) if it can be. Claimed when this returns. 0 with err when there is none. */
uint32_t uids_take(const struct uids *uids, uint32_t wanted, const uint32_t *taken, size_t count,
		   struct err *err);

/* Gives up the claim on one range. */
void uids_release(const struct uids *uids, uint32_t base);

/* Gives up all claims of this host but for these. */
void uids_keep(const struct uids *uids, const uint32_t *taken, size_t count);

/* Whether a range overlaps one of /etc/subuid, the text of which is given: pure. */
bool uids_overlap(uint32_t base, const char *subids);
