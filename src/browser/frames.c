#include "browser/frames.h"

#include <string.h>

#include "base/own.h"

void frames_list(struct tab *tab, struct frame_list *ret)
{
	size_t count = 0;
	pthread_mutex_lock(&tab->lock);
	for (const struct frame *frame = tab->frames; frame; frame = frame->next)
		count++;
	ret->ids = xcalloc(count + 1, sizeof *ret->ids);
	ret->count = 0;
	for (const struct frame *frame = tab->frames; frame; frame = frame->next)
		memcpy(ret->ids[ret->count++], frame->id, CDP_ID_MAX);
	pthread_mutex_unlock(&tab->lock);
}

void frames_done(struct frame_list *list)
{
	free(list->ids);
}

bool frames_parent(struct tab *tab, const char *id, char ret[CDP_ID_MAX])
{
	pthread_mutex_lock(&tab->lock);
	const struct frame *frame = tab_frame(tab, id);
	bool has = frame && *frame->parent;
	if (has)
		memcpy(ret, frame->parent, CDP_ID_MAX);
	pthread_mutex_unlock(&tab->lock);
	return has;
}
