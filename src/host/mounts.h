/* mounts.h - directories and files of the machine that a box may have: from below the roots that the
 * operator named. */
#pragma once
#include <jansson.h>
#include <limits.h>

struct box_mount;
struct err;

/* Checks what is asked for, and notes where it really is. It is looked at again whenever the box
 * starts, for what is below a root may be another's to change. */
int mounts_check(const char *roots, json_t *mount, struct err *err);

/* Opens a file or a directory to be read, below one of the roots of an option, over no link. */
int mounts_open(const char *roots, const char *option, const char *path, struct err *err);

/* For a start: each mount with the root that it is below. Free with mounts_free(). NULL with err when
 * one is below none (any more). What a box may not have as it was asked for (an earlier version allowed
 * it, or it has another owner now) is left out, and added to `left`: its target, and why. */
struct box_mount *mounts_of(const char *roots, const json_t *list, size_t *ret_count, json_t *left,
			    struct err *err);
void mounts_free(struct box_mount *mounts, size_t count);
