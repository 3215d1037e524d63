/* hidden.h - what of the machine's live directory not everyone may read, and boxes must not see: their root
 * is root for its mode bits. Looked for once, and again when something was made or changed there that may
 * have to be hidden. */
#pragma once
#include <stdint.h>

struct buf;
struct err;

/* Brings the list up to date, with all that has happened before this was called. `fd` is a file that the
 * caller has locked, the same for all processes forked after the first call: they share what the kernel
 * tells, so whoever looks leaves there what it has found. `state` is a number that differs when so much has
 * changed that all is to be looked through again. */
int hidden_find(const char *live, int fd, uint64_t state, struct err *err);

/* The paths, each ended by NUL. */
const struct buf *hidden_paths(void);
