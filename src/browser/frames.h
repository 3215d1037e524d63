/* frames.h - the frames of a tab for those who go through them, without holding its lock meanwhile. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "browser/tab.h"

struct frame_list {
	char (*ids)[CDP_ID_MAX];
	size_t count;
};

/* All of them, the main one first; to be ended by frames_done(). */
void frames_list(struct tab *tab, struct frame_list *ret);
void frames_done(struct frame_list *list);

/* The frame around one; false: there is none, it is the main one or gone. */
bool frames_parent(struct tab *tab, const char *id, char ret[CDP_ID_MAX]);
