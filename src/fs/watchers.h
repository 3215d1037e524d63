/* watchers.h - the sessions of watching: a watch that clients find by an id. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/desc.h"
#include "session/sessions.h"

struct err;
struct watch;
struct watch_spec;

/* What it adds to a session does not change. */
struct watcher {
	struct session base;
	struct watch *watch;
	struct arena arena; /* of what follows */
	const char *path;
	struct list include, exclude;
	bool recursive;
	int64_t debounce;
};
extern struct sessions watchers_sessions;

/* Starts a watch, in a new session. */
struct watcher *watchers_open(const struct watch_spec *spec, struct err *err);

/* It is idle from the end of the last request that looked at it. */
void watchers_release(struct watcher **watcher);
#define auto_watcher __attribute__((cleanup(watchers_release)))
