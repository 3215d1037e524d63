/* bind.h - directories and files of the machine, shown in a box.
 *
 * In the box their owner is gem, and so is their group: what gem makes there is the owner's on the machine
 * too. All other users of the box, its root among them, have there the ids of the box's own range, which
 * nobody on the machine has. Whatever else belongs to other users of the machine is nobody's in the box:
 * it can be read where everyone may, and not be changed. So a box makes no file of root's, and none that
 * runs with more than its owner's rights. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct box_mount;
struct err;
struct stat;

/* Refuses root's files to boxes that could write there: gem would be root of the machine. */
int bind_check(const struct stat *st, bool writable, const char *path, struct err *err);

/* The tree of a mount, for a box with these ids. The way from its root on is walked once, over no link. */
int bind_open(const struct box_mount *mount, uint32_t uid_base, struct err *err);
