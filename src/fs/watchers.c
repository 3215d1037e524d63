#include "fs/watchers.h"

#include "base/own.h"
#include "fs/watch.h"

static void watcher_done(void *arg)
{
	struct watcher *watcher = arg;
	watch_free(watcher->watch);
	arena_done(&watcher->arena);
}

static void watcher_end(void *arg)
{
	struct watcher *watcher = arg;
	watch_stop(watcher->watch);
}

struct sessions watchers_sessions = {
	.kind = "watch",
	.size = sizeof(struct watcher),
	.end = watcher_end,
	.done = watcher_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

void watchers_release(struct watcher **watcher)
{
	if (!*watcher)
		return;
	pthread_mutex_lock(&(*watcher)->base.lock);
	sessions_touch(&(*watcher)->base);
	pthread_mutex_unlock(&(*watcher)->base.lock);
	sessions_release(*watcher);
}

static struct list copy_list(struct arena *arena, const struct list *from)
{
	const char **items = arena_alloc(arena, (from->count + 1) * sizeof *items);
	for (size_t i = 0; i < from->count; i++)
		items[i] = arena_strdup(arena, ((const char *const *)from->items)[i]);
	return (struct list){ from->count, items };
}

struct watchers_recipe {
	const struct watch_spec *spec;
	struct watch *watch; /* NULL: a watcher has it */
};

static void watcher_fill(void *arg, void *how)
{
	struct watcher *watcher = arg;
	struct watchers_recipe *recipe = how;
	const struct watch_spec *spec = recipe->spec;
	watcher->watch = TAKE(recipe->watch);
	watcher->path = arena_strdup(&watcher->arena, spec->path);
	watcher->exclude = copy_list(&watcher->arena, &spec->exclude);
	watcher->include = copy_list(&watcher->arena, &spec->include);
	watcher->recursive = spec->recursive;
	watcher->debounce = spec->window_ms;
}

struct watcher *watchers_open(const struct watch_spec *spec, struct err *err)
{
	struct watchers_recipe recipe = { spec, watch_start(spec, err) };
	if (!recipe.watch)
		return NULL;
	struct watcher *watcher =
		sessions_open(&watchers_sessions, NULL, watcher_fill, &recipe, err);
	watch_free(recipe.watch);
	return watcher;
}
