#include "browser/elements.h"

#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/act.h"
#include "browser/cdp_params.h"
#include "browser/frames.h"
#include "browser/tab.h"

enum { CHILD_MS = 3000 }; /* for a frame: one that hangs is passed over */

#define AGAIN "list the elements again (GET /v1/browser/page/elements)"

/* ---- listing ---- */

static void set_numbering(struct tab *tab, int64_t numbering)
{
	pthread_mutex_lock(&tab->lock);
	tab->numbering = numbering;
	pthread_mutex_unlock(&tab->lock);
}

static json_t *list_main(struct tab *tab, size_t max, const struct wait *wait, struct err *err)
{
	json_t *args = json_pack("{s:b, s:I}", "main", 1, "max", (json_int_t)max);
	return frame_js(tab, NULL, "elements", args, wait, err);
}

static json_t *list_child(struct tab *tab, const char *frame, int64_t numbering, int64_t from,
			  int64_t count, size_t max, const struct wait *wait)
{
	struct err ignored;
	json_t *args = json_pack("{s:b, s:I, s:I, s:I, s:I}", "main", 0, "numbering",
				 (json_int_t)numbering, "from", (json_int_t)from, "count",
				 (json_int_t)count, "max", (json_int_t)max);
	return frame_js(tab, frame, "elements", args, wait, &ignored);
}

/* Numbers for elements of another frame are given out by the main one. */
static json_t *number_child(struct tab *tab, const char *frame, int64_t numbering, json_t *listed,
			    size_t max, const struct wait *wait)
{
	struct err ignored;
	int64_t missing = cdp_int(listed, "missing");
	if (missing == 0)
		return listed;
	json_decref(listed);
	json_t *allotted = frame_js(tab, NULL, "allot",
				    json_pack("{s:I}", "count", (json_int_t)missing), wait,
				    &ignored);
	if (!allotted)
		return NULL;
	int64_t from = cdp_int(allotted, "from");
	bool same = cdp_int(allotted, "numbering") == numbering;
	json_decref(allotted);
	return same ? list_child(tab, frame, numbering, from, missing, max, wait) : NULL;
}

/* Adds what another frame has, each with the frame's URL. */
static void add_child(struct tab *tab, const char *frame, int64_t numbering, json_t *all,
		      size_t max, const struct wait *wait)
{
	struct wait until = *wait;
	int64_t soon = clock_ms() + CHILD_MS;
	until.until_ms = soon < wait->until_ms ? soon : wait->until_ms;
	json_t *listed = list_child(tab, frame, numbering, 0, 0, max, &until), *item;
	if (listed)
		listed = number_child(tab, frame, numbering, listed, max, &until);
	size_t i;
	pthread_mutex_lock(&tab->lock);
	const struct frame *known = tab_frame(tab, frame);
	auto_free char *url = xstrdup(known ? known->url : "");
	pthread_mutex_unlock(&tab->lock);
	json_array_foreach(json_object_get(listed, "elements"), i, item) {
		if (json_is_null(json_object_get(item, "index")))
			continue;
		json_object_set_new(item, "frame", json_string(url));
		json_array_append(all, item);
	}
	json_decref(listed);
}

json_t *act_elements(struct tab *tab, size_t max, const struct wait *wait, struct err *err)
{
	struct frame_list frames;
	json_t *listed = list_main(tab, max, wait, err);
	if (!listed)
		return NULL;
	int64_t numbering = cdp_int(listed, "numbering");
	json_t *all = json_incref(json_object_get(listed, "elements"));
	json_decref(listed);
	if (!json_is_array(all)) {
		err_set(err, ERR_INTERNAL, "the page did not list its elements");
		json_decref(all);
		return NULL;
	}
	set_numbering(tab, numbering);
	frames_list(tab, &frames);
	for (size_t i = 1; i < frames.count && json_array_size(all) < max; i++)
		add_child(tab, frames.ids[i], numbering, all, max - json_array_size(all), wait);
	frames_done(&frames);
	return all;
}

/* ---- marks ---- */

/* A frame that hangs is passed over. */
static void mark_all(struct tab *tab, bool on, const struct wait *wait)
{
	struct frame_list frames;
	struct err ignored;
	frames_list(tab, &frames);
	for (size_t i = 0; i < frames.count; i++) {
		struct wait until = *wait;
		int64_t soon = clock_ms() + CHILD_MS;
		until.until_ms = i && soon < wait->until_ms ? soon : wait->until_ms;
		json_decref(frame_js(tab, frames.ids[i], "marks",
				     json_pack("{s:b, s:i}", "on", on, "max", ACT_ELEMENTS_MAX),
				     &until, &ignored));
	}
	frames_done(&frames);
}

int elements_mark(struct tab *tab, const struct wait *wait, struct err *err)
{
	json_t *all = act_elements(tab, ACT_ELEMENTS_MAX, wait, err);
	if (!all)
		return -1;
	json_decref(all);
	mark_all(tab, true, wait);
	return 0;
}

void elements_unmark(struct tab *tab, const struct wait *wait)
{
	mark_all(tab, false, wait);
}

/* ---- an index ---- */

static json_t *ask_number(struct tab *tab, const char *frame, int64_t index, int64_t numbering,
			  const struct wait *wait, struct err *err)
{
	json_t *args = json_pack("{s:I, s:I}", "index", (json_int_t)index, "numbering",
				 (json_int_t)numbering);
	return frame_js(tab, frame, "number", args, wait, err);
}

static bool child_knows(struct tab *tab, int64_t index, int64_t numbering, const struct wait *wait)
{
	struct frame_list frames;
	struct err ignored;
	bool found = false;
	frames_list(tab, &frames);
	for (size_t i = 1; i < frames.count && !found; i++) {
		struct wait until = *wait;
		int64_t soon = clock_ms() + CHILD_MS;
		until.until_ms = soon < wait->until_ms ? soon : wait->until_ms;
		json_t *known = ask_number(tab, frames.ids[i], index, numbering, &until, &ignored);
		found = cdp_true(known, "there");
		json_decref(known);
	}
	frames_done(&frames);
	return found;
}

static int explain(struct tab *tab, int64_t index, int64_t numbering, const json_t *known,
		   const struct wait *wait, struct err *err)
{
	int64_t next = cdp_int(known, "next");
	if (!cdp_true(known, "current"))
		return err_set(err, ERR_CONFLICT,
			       "the page has gone to another document since its elements were "
			       "listed: " AGAIN);
	if (cdp_true(known, "there"))
		return 0;
	if (cdp_true(known, "known"))
		return err_set(err, ERR_CONFLICT,
			       "element %lld, %.200s, is gone from the page: " AGAIN,
			       (long long)index, cdp_text(known, "name"));
	if (index >= next && next > 0)
		return err_set(err, ERR_CONFLICT,
			       "there is no element %lld: indexes go from 0 to %lld",
			       (long long)index, (long long)next - 1);
	if (next == 0)
		return err_set(err, ERR_CONFLICT, "there is no element %lld: the page has none",
			       (long long)index);
	if (child_knows(tab, index, numbering, wait))
		return 0;
	return err_set(err, ERR_CONFLICT, "element %lld is gone with its frame: " AGAIN,
		       (long long)index);
}

int elements_known(struct tab *tab, int64_t index, int64_t *ret_numbering, const struct wait *wait,
		   struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	bool listed = tab->numbering;
	pthread_mutex_unlock(&tab->lock);
	json_t *all = listed ? NULL : act_elements(tab, ACT_ELEMENTS_MAX, wait, err);
	if (!listed && !all)
		return -1;
	json_decref(all);
	pthread_mutex_lock(&tab->lock);
	*ret_numbering = tab->numbering;
	pthread_mutex_unlock(&tab->lock);
	json_t *known = ask_number(tab, NULL, index, *ret_numbering, wait, err);
	if (!known)
		return -1;
	int result = explain(tab, index, *ret_numbering, known, wait, err);
	json_decref(known);
	return result;
}
