/* Downloads of the browser, the latest of them. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp_params.h"

enum { SHOWN = 200, NAME_MAX_ = 255 };

/* ---- events ---- */

static void done(struct download *download)
{
	free(download->url);
	free(download->path);
	*download = (struct download){ 0 };
}

void downloads_free(struct browser *browser)
{
	for (size_t i = 0; i < DOWNLOADS_MAX; i++)
		done(&browser->downloads.list[i]);
}

void downloads_begin(struct browser *browser, const json_t *params)
{
	const char *name = cdp_text(params, "suggestedFilename");
	char guid[sizeof((struct download *)0)->guid];
	if (!cdp_id(guid, sizeof guid, cdp_text(params, "guid")) || strchr(name, '/'))
		return;
	pthread_mutex_lock(&browser->lock);
	uint64_t number = ++browser->downloads.count;
	struct download *d = &browser->downloads.list[number % DOWNLOADS_MAX];
	done(d);
	d->number = number;
	memcpy(d->guid, guid, sizeof guid);
	d->url = xstrndup(cdp_text(params, "url"), URL_MAX);
	d->path = xasprintf("%s/%.*s", browser->downloads_dir, NAME_MAX_, name);
	waiter_wake(browser->waiters);
	pthread_mutex_unlock(&browser->lock);
	browser_tell(browser, "Download started: %.*s", SHOWN, name);
}

static struct download *find(struct browser *browser, const char *guid)
{
	for (size_t i = 0; i < DOWNLOADS_MAX; i++)
		if (browser->downloads.list[i].number && *guid &&
		    !strcmp(browser->downloads.list[i].guid, guid))
			return &browser->downloads.list[i];
	return NULL;
}

/* Newer browsers say where the file is: it may have another name than was suggested. */
static void take_state(struct download *d, const json_t *params)
{
	const char *state = cdp_text(params, "state"), *path = cdp_text(params, "filePath");
	d->received = cdp_int(params, "receivedBytes");
	d->total = cdp_int(params, "totalBytes");
	if (!strcmp(state, "completed"))
		d->state = DOWNLOAD_DONE;
	else if (!strcmp(state, "canceled"))
		d->state = DOWNLOAD_CANCELED;
	if (*path == '/' && strlen(path) < 4096) {
		free(d->path);
		d->path = xstrdup(path);
	}
}

void downloads_progress(struct browser *browser, const json_t *params)
{
	char said[SHOWN + 1] = "";
	enum download_state state = DOWNLOAD_RUNNING;
	pthread_mutex_lock(&browser->lock);
	struct download *d = find(browser, cdp_text(params, "guid"));
	if (d && d->state == DOWNLOAD_RUNNING) {
		take_state(d, params);
		state = d->state;
		snprintf(said, sizeof said, "%s", d->path);
		if (state != DOWNLOAD_RUNNING)
			waiter_wake(browser->waiters);
	}
	pthread_mutex_unlock(&browser->lock);
	if (state != DOWNLOAD_RUNNING)
		browser_tell(browser, "Download %s: %s",
			     state == DOWNLOAD_DONE ? "completed" : "canceled", said);
}

/* ---- asking ---- */

static struct download copy(const struct download *from, struct arena *arena)
{
	struct download d = *from;
	d.url = arena_strdup(arena, from->url);
	d.path = arena_strdup(arena, from->path);
	return d;
}

uint64_t browser_downloads(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	uint64_t count = browser->downloads.count;
	pthread_mutex_unlock(&browser->lock);
	return count;
}

size_t browser_list_downloads(struct browser *browser, size_t max, struct arena *arena,
			      struct download **ret)
{
	size_t count = 0;
	struct download *list = *ret = arena_alloc(arena, (DOWNLOADS_MAX + 1) * sizeof *list);
	pthread_mutex_lock(&browser->lock);
	for (uint64_t n = browser->downloads.count; n && count < max && count < DOWNLOADS_MAX; n--)
		list[count++] = copy(&browser->downloads.list[n % DOWNLOADS_MAX], arena);
	pthread_mutex_unlock(&browser->lock);
	return count;
}

bool browser_downloading(struct browser *browser)
{
	bool any = false;
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; i < DOWNLOADS_MAX; i++)
		any |= browser->downloads.list[i].number &&
		       browser->downloads.list[i].state == DOWNLOAD_RUNNING;
	pthread_mutex_unlock(&browser->lock);
	return any;
}

struct awaited {
	uint64_t number;
	struct arena *arena;
	struct download *ret;
};

static bool has_ended(struct browser *browser, void *arg)
{
	struct awaited *awaited = arg;
	const struct download *d = &browser->downloads.list[awaited->number % DOWNLOADS_MAX];
	if (d->number != awaited->number || d->state == DOWNLOAD_RUNNING)
		return false;
	*awaited->ret = copy(d, awaited->arena);
	return true;
}

int browser_wait_download(struct browser *browser, uint64_t since, struct arena *arena,
			  struct download *ret, const struct wait *wait, struct err *err)
{
	struct awaited awaited = { since + 1, arena, ret };
	if (browser_wait(browser, has_ended, &awaited, wait, err) < 0)
		return -1;
	return ret->state == DOWNLOAD_DONE
		       ? 0
		       : err_set(err, ERR_CONFLICT, "the download of '%s' was canceled", ret->url);
}

static uint64_t before_untaken(struct browser *browser)
{
	pthread_mutex_lock(&browser->lock);
	uint64_t count = browser->downloads.count;
	uint64_t before = count > browser->downloads.taken ? count - 1 : count;
	pthread_mutex_unlock(&browser->lock);
	return before;
}

int browser_take_download(struct browser *browser, struct arena *arena, struct download *ret,
			  const struct wait *wait, struct err *err)
{
	*ret = (struct download){ 0 };
	int result = browser_wait_download(browser, before_untaken(browser), arena, ret, wait, err);
	pthread_mutex_lock(&browser->lock);
	if (ret->number > browser->downloads.taken)
		browser->downloads.taken = ret->number;
	pthread_mutex_unlock(&browser->lock);
	return result;
}
