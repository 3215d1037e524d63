/* tree.h - all processes of a session, wherever they have gone.
 *
 * A process can leave its group, its session and its parent, but not the environment it was started
 * with: each session's programs carry a marker there, and so does all that they start. */
#pragma once
#include <stddef.h>

#define TREE_MARKER "AIO_SESSION"

/* Writes "AIO_SESSION=…", unique on this machine, to be put in the environment. */
void tree_marker(char *to, size_t room, const char *id);

/* Kills every process that carries the marker, or descends from one that does, until none is left
 * or they cannot be killed by us. Stopped first: a stopped process starts no other. */
void tree_end(const char *marker);
