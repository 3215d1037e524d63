/* file_events.h - what happened to files: told once, in order, and kept for those who ask later.
 *
 * An event first waits for a while, in case the next one says the same. Then it gets a number and a
 * place in a ring, from which the oldest are lost. Waiting events belong to one thread; whatever
 * touches the ring (file_events_keep, file_events_page, file_events_last) needs a lock of the caller's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum event_type {
	EVENT_CREATE,
	EVENT_WRITE,
	EVENT_REMOVE,
	EVENT_RENAME,
	EVENT_CHMOD,
	EVENT_OVERFLOW, /* some were lost here */
};

struct file_event {
	int64_t seq;
	enum event_type type;
	const char *path, *old_path; /* relative; old_path of a rename, else NULL */
	bool is_dir, known;          /* known: what follows timestamp is filled */
	double timestamp, mtime;
	int64_t size;
	uint64_t inode;
};

enum { EVENTS_RING_MAX = 65536, EVENTS_TEXT_MAX = 16 << 20, EVENTS_WAITING_MAX = 65536 };

struct file_events;

struct file_events *file_events_new(int64_t window_ms);
void file_events_free(struct file_events *events); /* NULL is fine */

/* Says that something happened. */
void file_events_add(struct file_events *events, enum event_type type, bool is_dir,
		     const char *path, const char *old_path, int64_t now_ms, double timestamp);

/* The moment at which the next event will have waited for long enough; INT64_MAX for none. */
int64_t file_events_due(const struct file_events *events);

/* The next one that has waited for long enough, or NULL: to be completed and given to keep(). */
struct file_event *file_events_take(struct file_events *events, int64_t now_ms);
void file_events_keep(struct file_events *events, struct file_event *event);

int64_t file_events_last(const struct file_events *events); /* the newest number; 0: none */

/* What came after a cursor. */
struct file_events_page {
	struct file_event *events;
	size_t count;
	int64_t cursor; /* for the next page */
	bool overflow;  /* something is missing from what came after the cursor */
};

/* At most limit events, copied into the arena. With `marks` the places where some were lost are among
 * them; else they only set overflow. */
void file_events_page(const struct file_events *events, int64_t cursor, size_t limit, bool marks,
		      struct arena *arena, struct file_events_page *ret);
