#include "fs/file_events.h"

#include <string.h>

#include "base/arena.h"
#include "base/own.h"

enum { BUCKETS = 4096, RING_FIRST = 64 };

struct waiting {
	struct file_event event;
	int64_t due_ms;
	uint64_t generation;
	bool dead;
	struct waiting *next, *same; /* in order; in its bucket, newest first */
};

struct file_events {
	int64_t window_ms;
	struct waiting *first, **end, *last, *buckets[BUCKETS];
	size_t waiting;
	uint64_t generation; /* since a directory went away, its paths may mean something else */
	struct file_event *ring;
	size_t room, head, count, text;
	int64_t last_seq;
};

struct file_events *file_events_new(int64_t window_ms)
{
	struct file_events *events = xcalloc(1, sizeof *events);
	events->window_ms = window_ms;
	events->end = &events->first;
	return events;
}

static void waiting_free(struct waiting *w)
{
	free((char *)w->event.path);
	free((char *)w->event.old_path);
	free(w);
}

static size_t text_of(const struct file_event *event)
{
	return strlen(event->path) + (event->old_path ? strlen(event->old_path) : 0) + 2;
}

static void ring_drop(struct file_events *events)
{
	struct file_event *oldest = &events->ring[events->head];
	events->text -= text_of(oldest);
	free((char *)oldest->path);
	free((char *)oldest->old_path);
	events->head = (events->head + 1) % events->room;
	events->count--;
}

void file_events_free(struct file_events *events)
{
	if (!events)
		return;
	for (struct waiting *w = events->first, *next; w; w = next) {
		next = w->next;
		waiting_free(w);
	}
	while (events->count)
		ring_drop(events);
	free(events->ring);
	free(events);
}

/* ---- waiting ---- */

static struct waiting **bucket_of(struct file_events *events, const char *path)
{
	uint32_t hash = 2166136261u;
	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 16777619u;
	return &events->buckets[hash % BUCKETS];
}

/* The newest that waits with a path and still means the same by it. */
static struct waiting **locate(struct file_events *events, const char *path)
{
	struct waiting **at = bucket_of(events, path);
	while (*at &&
	       ((*at)->generation != events->generation || strcmp((*at)->event.path, path) != 0))
		at = &(*at)->same;
	return at;
}

static void unhash(struct file_events *events, const struct waiting *w)
{
	struct waiting **at = bucket_of(events, w->event.path);
	while (*at && *at != w)
		at = &(*at)->same;
	if (*at)
		*at = w->same;
}

/* Whether an event adds nothing to the one that waits with the same path. */
static bool absorb(struct waiting *w, enum event_type type, double timestamp)
{
	enum event_type before = w->event.type;
	bool change = type == EVENT_WRITE || type == EVENT_CHMOD;
	if (before == type && type != EVENT_RENAME) {
		/* twice the same */
	} else if (change && (before == EVENT_CREATE || before == EVENT_WRITE)) {
		/* what is new is complete when it is told */
	} else if (type == EVENT_WRITE && before == EVENT_CHMOD) {
		w->event.type = EVENT_WRITE;
	} else {
		return false;
	}
	w->event.timestamp = timestamp;
	return true;
}

void file_events_add(struct file_events *events, enum event_type type, bool is_dir,
		     const char *path, const char *old_path, int64_t now_ms, double timestamp)
{
	struct waiting *before = type == EVENT_OVERFLOW ? NULL : *locate(events, path);
	if (before && before->event.is_dir == is_dir && absorb(before, type, timestamp))
		return;
	if (type == EVENT_OVERFLOW && events->last && events->last->event.type == type)
		return;
	if (before && type == EVENT_REMOVE &&
	    (before->event.type == EVENT_WRITE || before->event.type == EVENT_CHMOD))
		before->dead = true; /* nobody can see that change any more */
	struct waiting *moved = old_path ? *locate(events, old_path) : NULL;
	if (moved)
		unhash(events, moved); /* what has that name next is another file */
	struct waiting *w = xcalloc(1, sizeof *w);
	w->event = (struct file_event){ .type = type,
					.path = xstrdup(path),
					.old_path = old_path ? xstrdup(old_path) : NULL,
					.is_dir = is_dir,
					.timestamp = timestamp };
	w->due_ms = now_ms + events->window_ms;
	*events->end = events->last = w;
	events->end = &w->next;
	events->waiting++;
	if (type == EVENT_OVERFLOW || (is_dir && (type == EVENT_REMOVE || type == EVENT_RENAME)))
		events->generation++;
	w->generation = events->generation;
	struct waiting **bucket = bucket_of(events, path);
	w->same = *bucket;
	*bucket = w;
}

int64_t file_events_due(const struct file_events *events)
{
	if (!events->first)
		return INT64_MAX;
	return events->waiting > EVENTS_WAITING_MAX ? 0 : events->first->due_ms;
}

struct file_event *file_events_take(struct file_events *events, int64_t now_ms)
{
	while (events->first && file_events_due(events) <= now_ms) {
		struct waiting *w = events->first;
		unhash(events, w);
		events->first = w->next;
		events->waiting--;
		if (!events->first) {
			events->end = &events->first;
			events->last = NULL;
		}
		if (!w->dead)
			return &w->event;
		waiting_free(w);
	}
	return NULL;
}

/* ---- the ring ---- */

static void ring_grow(struct file_events *events)
{
	size_t room = events->room ? events->room * 2 : RING_FIRST;
	struct file_event *ring = xcalloc(room, sizeof *ring);
	for (size_t i = 0; i < events->count; i++)
		ring[i] = events->ring[(events->head + i) % events->room];
	free(events->ring);
	events->ring = ring;
	events->room = room;
	events->head = 0;
}

void file_events_keep(struct file_events *events, struct file_event *event)
{
	if (events->count == events->room && events->room < EVENTS_RING_MAX)
		ring_grow(events);
	event->seq = ++events->last_seq;
	events->text += text_of(event);
	while (events->count == events->room || (events->count && events->text > EVENTS_TEXT_MAX))
		ring_drop(events);
	events->ring[(events->head + events->count++) % events->room] = *event;
	free(event); /* the beginning of the struct that waited */
}

int64_t file_events_last(const struct file_events *events)
{
	return events->last_seq;
}

void file_events_page(const struct file_events *events, int64_t cursor, size_t limit, bool marks,
		      struct arena *arena, struct file_events_page *ret)
{
	int64_t oldest = events->last_seq - (int64_t)events->count + 1;
	*ret = (struct file_events_page){ .cursor = cursor };
	if (cursor > events->last_seq || cursor < oldest - 1) {
		ret->overflow = true;
		ret->cursor = cursor > events->last_seq ? events->last_seq : oldest - 1;
	}
	size_t left = (size_t)(events->last_seq - ret->cursor);
	ret->events = arena_alloc(arena, (left < limit ? left : limit) * sizeof *ret->events);
	while (ret->cursor < events->last_seq && ret->count < limit) {
		size_t at = (events->head + (size_t)(++ret->cursor - oldest)) % events->room;
		const struct file_event *event = &events->ring[at];
		ret->overflow = ret->overflow || (event->type == EVENT_OVERFLOW && !marks);
		if (event->type == EVENT_OVERFLOW && !marks)
			continue;
		struct file_event *copy = &ret->events[ret->count++];
		*copy = *event;
		copy->path = arena_strdup(arena, event->path);
		copy->old_path = event->old_path ? arena_strdup(arena, event->old_path) : NULL;
	}
}
