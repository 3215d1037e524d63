/* watch.h - a directory tree, or one file, whose changes are told as they happen.
 *
 * Each watch has an inotify instance, and a thread that acts with the rights of the user who asked.
 * A directory that appears is watched before it is read, so nothing in it is missed; what is found by
 * both is told once. Where the kernel lost events, or could not watch all, EVENT_OVERFLOW says so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/wait.h"
#include "fs/file_events.h"

struct user;

struct watch_spec {
	const char *path; /* absolute */
	bool recursive,
		entry;     /* entry: the name itself, whether or not it exists, whatever it is */
	int64_t window_ms; /* for which events of one file are gathered */
	size_t max_dirs;
	struct list include, exclude; /* patterns; an empty include is all */
	const struct user *user;      /* NULL: as the server */
};

enum watch_state { WATCH_STARTING, WATCH_ACTIVE, WATCH_ENDED };

/* What may be looked at with the lock. */
struct watch_view {
	enum watch_state state;
	struct err why;  /* of its end */
	bool incomplete; /* some directories could not be watched */
	size_t dirs;
	struct file_events *events;
};

/* It is WATCH_STARTING until the whole tree is watched; when that fails, WATCH_ENDED with why. */
struct watch *watch_start(const struct watch_spec *spec, struct err *err);
void watch_stop(struct watch *watch); /* ends it, waits for its thread; waiters are woken */
void watch_free(struct watch *watch); /* NULL is fine */

/* The directory that its events' paths are relative to; "" is "/". */
const char *watch_root(const struct watch *watch);

const struct watch_view *watch_lock(struct watch *watch);
void watch_unlock(struct watch *watch);

/* With the lock: waits for new events and changes of state. See wait_change(). */
enum wake watch_wait(struct watch *watch, const struct wait *wait);
