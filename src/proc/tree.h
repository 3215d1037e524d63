/* tree.h - all processes of a session, wherever they have gone.
 *
 * A process can leave its group, its session and its parent. What it cannot leave so easily are the
 * environment it was started with, and its limits: each session's programs carry a marker in the one
 * and, because a daemon may hide its environment (nginx writes its title over it), the same as a
 * number in the limits, in one that means nothing to them. So does all that they start. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define TREE_MARKER "AIO_SESSION"

/* Writes "AIO_SESSION=…", unique on this machine, to be put in the environment. */
void tree_marker(char *to, size_t room, const char *id);

/* The number that belongs to a marker: for spawn.tag. */
uint64_t tree_tag(const char *marker);

/* Kills every process that carries the marker, or descends from one that does, until none is left
 * or they cannot be killed by us. Stopped first: a stopped process starts no other. */
void tree_end(const char *marker);

/* The same for what a process of ours that has ended may have left behind. While nobody has left
 * anything, that is cheap to see. */
void tree_end_orphans(const char *marker);

/* The same for all that descend from this process. It still has to reap them. */
void tree_end_children(void);
