/* changes.h - what the kernel says about watched directories, read ahead: a rename comes in two halves,
 * and only what comes next tells whether there is another. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct changes {
	int fd;      /* of inotify; -1: closed */
	char *batch; /* what was read and not taken yet is between at and end */
	size_t at, end;
	size_t whole; /* before this, all halves have come that come at all */
};

/* One of them, apart from the buffer it came in. */
struct change {
	int wd;
	uint32_t mask, cookie;
	char name[NAME_MAX + 1];
};

int changes_open(struct changes *changes); /* -1 with errno */
void changes_close(struct changes *changes);

/* Reads more behind what is there: false when nothing came in time. */
bool changes_more(struct changes *changes, int wait_ms);

/* The next one; false when all that was read is taken. */
bool changes_take(struct changes *changes, struct change *ret);

/* The other half of a rename, taken out from among those to come; false when there is none. */
bool changes_mate(struct changes *changes, uint32_t cookie, struct change *ret);
