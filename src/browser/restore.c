#include "browser/restore.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/frames.h"

enum {
	TABS_MS = 3000,
	LOAD_MS = 3000,
};

struct restore {
	size_t count, current;
	bool any; /* shows more than a blank page */
	char *urls[TABS_MAX];
};

void restore_free(struct restore *restore)
{
	for (size_t i = 0; restore && i < restore->count; i++)
		free(restore->urls[i]);
	free(restore);
}

static bool is_blank(const char *url)
{
	return !*url || !strcmp(url, "about:blank") || !strncmp(url, "chrome://newtab", 15);
}

struct restore *restore_save(struct browser *browser)
{
	struct restore *restore = xcalloc(1, sizeof *restore);
	struct arena arena = { 0 };
	struct tab **tabs;
	size_t count = browser_tabs(browser, &arena, &tabs);
	for (size_t i = 0; i < count; i++) {
		pthread_mutex_lock(&tabs[i]->lock);
		char *url = restore->urls[restore->count++] = xstrdup(tabs[i]->url);
		pthread_mutex_unlock(&tabs[i]->lock);
		restore->any |= !is_blank(url);
		if (tabs[i] == browser_current(browser))
			restore->current = i;
		tab_release(tabs[i]);
	}
	arena_done(&arena);
	if (restore->any)
		return restore;
	restore_free(restore);
	return NULL;
}

static bool all_there(struct browser *browser, void *arg)
{
	const struct restore *restore = arg;
	return browser->tab_count >= restore->count;
}

/* With the browser's lock. Puts the tab of a target at that index; those before it stay. */
static struct tab *move_to(struct browser *browser, const char *target, size_t index)
{
	for (size_t i = index; i < browser->tab_count; i++) {
		struct tab *tab = browser->tabs[i];
		if (strcmp(tab->target, target) != 0)
			continue;
		memmove(browser->tabs + index + 1, browser->tabs + index,
			(i - index) * sizeof(struct tab *));
		return browser->tabs[index] = tab;
	}
	return NULL;
}

/* By their URLs, as the browser itself has them: frames have none before they are loaded. The tab that was
 * current, or NULL. */
static struct tab *put_in_order(const struct restore *restore, struct browser *browser,
				const json_t *targets)
{
	struct tab *current = NULL;
	size_t next = 0, j;
	json_t *target;
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; i < restore->count; i++) {
		struct tab *tab = NULL;
		json_array_foreach(targets, j, target)
			if (!tab && !strcmp(cdp_text(target, "url"), restore->urls[i]))
				tab = move_to(browser, cdp_text(target, "targetId"), next);
		next += tab != NULL;
		if (tab && i == restore->current)
			current = tab_ref(tab);
	}
	pthread_mutex_unlock(&browser->lock);
	return current;
}

static bool is_loaded(struct tab *tab, void *arg, int64_t *again)
{
	const struct frame *frame = tab_main_frame(tab);
	(void)arg;
	(void)again;
	return frame && *frame->loader && !tab->crashed;
}

void restore_await(const struct restore *restore, struct browser *browser, const struct wait *wait)
{
	const struct wait tabs = { clock_ms() + TABS_MS, wait->client_fd, wait->stop_fd };
	struct err ignored;
	(void)browser_wait(browser, all_there, (void *)restore, &tabs, &ignored);
	json_t *all = cdp_call(browser->cdp, NULL, "Target.getTargets", NULL, wait, &ignored);
	struct tab *current = put_in_order(restore, browser, json_object_get(all, "targetInfos"));
	json_decref(all);
	/* Until it is loaded, a page counts as crashed. The browser begins with the one that it shows. */
	const struct wait load = { clock_ms() + LOAD_MS, wait->client_fd, wait->stop_fd };
	if (current && tab_activate(current, wait, &ignored) == 0)
		(void)tab_wait_revived(current, is_loaded, NULL, UINT64_MAX, &load, &ignored);
	tab_release(current);
}
