#include "browser/act.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/dialog.h"
#include "browser/elements.h"
#include "browser/frames.h"
#include "browser/web_keys.h"

enum {
	AGAIN_MS = 50,   /* before a click is tried again */
	MOMENT_MS = 200, /* between two looks at all frames */
	CHILD_MS =
		2000, /* for a frame to say whether it has something: one that hangs is passed over */
	CHECKED_MS = 1000,
	SETTLE_MS = 5000, /* for a document that a click leads to */
};

static int64_t left_ms(const struct wait *wait)
{
	int64_t left = wait->until_ms - clock_ms() - ACT_GRACE_MS;
	return left > 0 ? left : 0;
}

static struct wait at_most(const struct wait *wait, int64_t ms)
{
	struct wait result = *wait;
	int64_t until = clock_ms() + ms;
	result.until_ms = until < wait->until_ms ? until : wait->until_ms;
	return result;
}

/* ---- finding the frame ---- */

static json_t *target_json(const struct act_target *target, int64_t numbering)
{
	if (target->selector)
		return json_pack("{s:s}", "selector", target->selector);
	return json_pack("{s:I, s:I}", "index", (json_int_t)target->index, "numbering",
			 (json_int_t)numbering);
}

struct search {
	struct tab *tab;
	const struct wait *wait;
	const char *function;
	json_t *target, *args;  /* owned */
	char frame[CDP_ID_MAX]; /* where it was found */
};

static json_t *search_args(const struct search *search)
{
	json_t *args = search->args ? json_copy(search->args) : json_object();
	json_object_set(args, "target", search->target);
	json_object_set_new(args, "timeout_ms", json_integer(left_ms(search->wait)));
	json_object_set_new(args, "soft", json_true());
	return args;
}

static bool child_has(const struct search *search, const char *frame)
{
	const struct wait wait = at_most(search->wait, CHILD_MS);
	struct err ignored;
	json_t *has = frame_js(search->tab, frame, "has",
			       json_pack("{s:O}", "target", search->target), &wait, &ignored);
	bool result = json_is_true(has);
	json_decref(has);
	return result;
}

/* JSON null: this frame does not have it. */
static json_t *search_frame(struct search *search, const char *frame, bool main, struct err *err)
{
	if (!main && !child_has(search, frame))
		return json_null();
	memcpy(search->frame, frame, CDP_ID_MAX);
	return frame_js(search->tab, frame, search->function, search_args(search), search->wait,
			err);
}

static json_t *search_frames(struct search *search, struct err *err)
{
	struct frame_list frames;
	json_t *result = json_null();
	frames_list(search->tab, &frames);
	for (size_t i = 0; i < frames.count && json_is_null(result); i++)
		result = search_frame(search, frames.ids[i], i == 0, err);
	frames_done(&frames);
	return result;
}

static int no_element(const struct search *search, struct err *err)
{
	const char *selector = json_string_value(json_object_get(search->target, "selector"));
	if (!selector)
		return err_set(err, ERR_CONFLICT,
			       "the element is gone from the page: list the "
			       "elements again (GET /v1/browser/page/elements)");
	return err_set(err, ERR_CONFLICT,
		       "no element matches '%.200s'%s within the time of the call", selector,
		       strlen(selector) > 200 ? "…" : "");
}

/* A moment of the main frame, or less if it gets one. A document that is going is waited for, too. */
static int pass_moment(struct search *search, struct err *err)
{
	int64_t ms = left_ms(search->wait);
	if (ms <= 0 || !json_object_get(search->target, "selector"))
		return no_element(search, err);
	json_t *args = json_pack("{s:O, s:I}", "target", search->target, "timeout_ms",
				 (json_int_t)(ms < MOMENT_MS ? ms : MOMENT_MS));
	json_t *found = frame_js(search->tab, NULL, "await_target", args, search->wait, err);
	json_decref(found);
	return found || frame_js_gone(err) ? 0 : -1;
}

static json_t *search_run(struct search *search, struct err *err)
{
	json_t *result;
	for (;;) {
		result = search_frames(search, err);
		if (result ? !json_is_null(result) : !frame_js_gone(err))
			break;
		json_decref(result);
		result = NULL;
		if (pass_moment(search, err) < 0)
			break;
	}
	json_decref(search->target);
	json_decref(search->args);
	return result;
}

static json_t *find(struct tab *tab, const struct act_target *target, const char *function,
		    json_t *args, char ret_frame[CDP_ID_MAX], const struct wait *wait,
		    struct err *err)
{
	int64_t numbering = 0;
	if (!target->selector && elements_known(tab, target->index, &numbering, wait, err) < 0) {
		json_decref(args);
		return NULL;
	}
	struct search search = { .tab = tab,
				 .wait = wait,
				 .function = function,
				 .target = target_json(target, numbering),
				 .args = args };
	json_t *result = search_run(&search, err);
	if (ret_frame && result)
		memcpy(ret_frame, search.frame, CDP_ID_MAX);
	return result;
}

json_t *act_on(struct tab *tab, const struct act_target *target, const char *function, json_t *args,
	       const struct wait *wait, struct err *err)
{
	return find(tab, target, function, args, NULL, wait, err);
}

/* ---- after it ---- */

/* What a tab was before something was done to it. */
struct before {
	uint64_t documents, windows, changes;
};

static struct before look_before(struct tab *tab)
{
	struct before before = { .changes = browser_changes(tab->browser) };
	pthread_mutex_lock(&tab->lock);
	before.windows = tab->windows;
	before.documents = tab->frames ? tab->frames->documents : 0;
	pthread_mutex_unlock(&tab->lock);
	return before;
}

static bool has_arrived(struct tab *tab, void *arg, int64_t *again)
{
	const struct frame *frame = tab_main_frame(tab);
	(void)arg;
	(void)again;
	return tab->dialog || !frame || (!frame->leaving && (frame->reached & TAB_DOM));
}

static bool has_news(struct browser *browser, void *arg)
{
	return browser->news.count != *(uint64_t *)arg;
}

/* The page has seen the input when it answers, which it does not before it has come to another document, if
 * the input led it to one. */
static void settle(struct tab *tab, struct before *before, const struct wait *wait)
{
	const struct wait until = at_most(wait, SETTLE_MS);
	struct err ignored;
	json_t *answer = frame_js(tab, NULL, "ping", NULL, &until, &ignored);
	json_decref(answer);
	const struct before after = look_before(tab);
	pthread_mutex_lock(&tab->lock);
	bool leaving = tab->frames && tab->frames->leaving;
	pthread_mutex_unlock(&tab->lock);
	if (leaving || after.documents != before->documents)
		(void)tab_wait(tab, has_arrived, NULL, &until, &ignored);
	if (after.windows != before->windows)
		(void)browser_wait(tab->browser, has_news, &before->changes, &until, &ignored);
}

/* Input that opened a dialog or closed the tab has done what it was to do. */
static bool has_taken_effect(struct tab *tab, const struct err *err)
{
	pthread_mutex_lock(&tab->lock);
	bool result = err->code == ERR_CONFLICT && (tab->dialog || tab->closed);
	pthread_mutex_unlock(&tab->lock);
	return result;
}

static int no_dialog(struct tab *tab, struct err *err)
{
	int result = 0;
	pthread_mutex_lock(&tab->lock);
	if (tab->dialog)
		result =
			err_set(err, ERR_CONFLICT,
				"the page waits for its dialog (%s: \"%.120s\"): accept or dismiss "
				"it first",
				tab->dialog->kind, tab->dialog->message);
	pthread_mutex_unlock(&tab->lock);
	return result;
}

static int finish(struct tab *tab, int result, struct before *before, const struct wait *wait,
		  struct err *err)
{
	if (result < 0)
		return has_taken_effect(tab, err) ? 0 : -1;
	settle(tab, before, wait);
	return 0;
}

/* ---- where to point at ---- */

struct spot {
	char frame[CDP_ID_MAX];
	struct input_point in_frame, at; /* at: of the tab's viewport */
	int64_t prepared;
	char element[600];
};

static struct input_point point_of(const json_t *json)
{
	return (struct input_point){ json_number_value(json_object_get(json, "x")),
				     json_number_value(json_object_get(json, "y")) };
}

/* From frame to frame outwards. `place` has x, y, width and height in a frame; it is taken. */
static int place_in_tab(struct tab *tab, const char *frame, json_t *place, struct input_point *ret,
			const struct wait *wait, struct err *err)
{
	char child[CDP_ID_MAX], parent[CDP_ID_MAX];
	const char *problem = NULL;
	memcpy(child, frame, sizeof child);
	while (place && !problem && frames_parent(tab, child, parent)) {
		place = frame_js_owner(tab, parent, child, "around", place, wait, err);
		problem = json_string_value(json_object_get(place, "problem"));
		memcpy(child, parent, sizeof child);
	}
	if (place)
		*ret = point_of(place);
	if (problem)
		err_set(err, ERR_CONFLICT, "%.400s", problem);
	bool placed = place && !problem;
	json_decref(place);
	return placed ? 0 : -1;
}

/* As long as custom elements may be called, it may not fit. */
static void set_element(struct spot *spot, const char *text)
{
	size_t len = utf8_fit(text, sizeof spot->element - 1);
	memcpy(spot->element, text, len);
	spot->element[len] = 0;
}

/* Where the element can be clicked, once it can. */
static int find_spot(struct tab *tab, const struct act_target *target, const char *function,
		     json_t *args, struct spot *ret, bool *ret_done, const struct wait *wait,
		     struct err *err)
{
	*ret = (struct spot){ 0 };
	json_t *answer = find(tab, target, function, args, ret->frame, wait, err);
	if (!answer)
		return -1;
	set_element(ret, cdp_text(answer, "element"));
	*ret_done = cdp_true(answer, "done");
	if (*ret_done) {
		json_decref(answer);
		return 0;
	}
	ret->in_frame = point_of(answer);
	ret->prepared = cdp_int(answer, "prepared");
	return place_in_tab(tab, ret->frame, answer, &ret->at, wait, err);
}

/* Now that the pointer is there: what it does to the page may have put something in the way. */
static int still_there(struct tab *tab, const struct spot *spot, const struct wait *wait,
		       struct err *err)
{
	json_t *args = json_pack("{s:f, s:f, s:I}", "x", spot->in_frame.x, "y", spot->in_frame.y,
				 "prepared", (json_int_t)spot->prepared);
	json_t *problem = frame_js(tab, spot->frame, "still", args, wait, err);
	if (!problem)
		return -1;
	if (json_is_string(problem))
		err_set(err, ERR_CONFLICT, "%.400s", json_string_value(problem));
	bool there = json_is_null(problem);
	json_decref(problem);
	return there ? 0 : -1;
}

/* Takes the turn to use the mouse, and moves it there. On failure it is given back. */
static int move_to(struct tab *tab, const struct spot *spot, const struct wait *wait,
		   struct err *err)
{
	if (turn_take(&tab->input, wait, err) < 0)
		return -1;
	if (input_move(tab, spot->at, wait, err) == 0 && still_there(tab, spot, wait, err) == 0)
		return 0;
	turn_give(&tab->input);
	return -1;
}

static bool may_try_again(struct tab *tab, const struct spot *spot, const struct wait *wait,
			  const struct err *err)
{
	/* Without a frame, the search itself has failed, and has waited. */
	return err->code == ERR_CONFLICT && left_ms(wait) > 0 && *spot->frame &&
	       !has_taken_effect(tab, err);
}

/* Moves the pointer to an element, makes sure that it is there, and begins again while there is time. With
 * the turn then, unless *ret_done: there is nothing to do. */
static int point_at(struct tab *tab, const struct act_target *target, const char *function,
		    json_t *args, struct spot *ret, bool *ret_done, const struct wait *wait,
		    struct err *err)
{
	int result = -1;
	for (bool again = true; again && result < 0;) {
		*ret_done = false;
		result = find_spot(tab, target, function, json_incref(args), ret, ret_done, wait,
				   err);
		if (result == 0 && !*ret_done)
			result = move_to(tab, ret, wait, err);
		again = result < 0 && may_try_again(tab, ret, wait, err);
		const struct wait moment = at_most(wait, AGAIN_MS);
		if (again)
			(void)wait_fd(&moment, -1, 0);
	}
	json_decref(args);
	return result;
}

static json_t *report(const struct spot *spot)
{
	return json_pack("{s:s, s:f, s:f}", "element", spot->element, "x", spot->at.x, "y",
			 spot->at.y);
}

/* Clicks where the pointer is, and gives back the turn. */
static int click_there(struct tab *tab, struct input_point at, enum input_button button,
		       int64_t count, struct before *before, const struct wait *wait,
		       struct err *err)
{
	int result = input_click(tab, at, button, count, wait, err);
	turn_give(&tab->input);
	return finish(tab, result, before, wait, err);
}

json_t *act_click(struct tab *tab, const struct act_target *target, enum input_button button,
		  int64_t count, const struct wait *wait, struct err *err)
{
	struct spot spot;
	bool done;
	struct before before = look_before(tab);
	if (no_dialog(tab, err) < 0 ||
	    point_at(tab, target, "point", json_pack("{s:b}", "enabled", 1), &spot, &done, wait,
		     err) < 0)
		return NULL;
	before.documents = look_before(tab).documents;
	return click_there(tab, spot.at, button, count, &before, wait, err) < 0 ? NULL
										: report(&spot);
}

json_t *act_hover(struct tab *tab, const struct act_target *target, const struct wait *wait,
		  struct err *err)
{
	struct spot spot;
	bool done;
	if (no_dialog(tab, err) < 0 ||
	    point_at(tab, target, "point", json_object(), &spot, &done, wait, err) < 0)
		return NULL;
	turn_give(&tab->input);
	return report(&spot);
}

/* ---- points of the viewport ---- */

static int check_point(struct tab *tab, struct input_point at, const struct wait *wait,
		       struct err *err)
{
	json_t *size = frame_js(tab, NULL, "viewport", NULL, wait, err);
	if (!size)
		return -1;
	double width = (double)cdp_int(size, "width"), height = (double)cdp_int(size, "height");
	json_decref(size);
	if (at.x >= 0 && at.y >= 0 && at.x < width && at.y < height)
		return 0;
	return err_set(err, ERR_CONFLICT,
		       "(%g, %g) is outside of the page's viewport of %gx%g pixels", at.x, at.y,
		       width, height);
}

static int move_at(struct tab *tab, struct input_point at, const struct wait *wait, struct err *err)
{
	if (check_point(tab, at, wait, err) < 0 || turn_take(&tab->input, wait, err) < 0)
		return -1;
	if (input_move(tab, at, wait, err) == 0)
		return 0;
	turn_give(&tab->input);
	return -1;
}

json_t *act_click_at(struct tab *tab, struct input_point at, enum input_button button,
		     int64_t count, const struct wait *wait, struct err *err)
{
	struct before before = look_before(tab);
	if (move_at(tab, at, wait, err) < 0 ||
	    click_there(tab, at, button, count, &before, wait, err) < 0)
		return NULL;
	return json_pack("{s:f, s:f}", "x", at.x, "y", at.y);
}

json_t *act_hover_at(struct tab *tab, struct input_point at, const struct wait *wait,
		     struct err *err)
{
	if (move_at(tab, at, wait, err) < 0)
		return NULL;
	turn_give(&tab->input);
	return json_pack("{s:f, s:f}", "x", at.x, "y", at.y);
}

/* ---- fields ---- */

/* In place of all that the field has. */
static int enter(struct tab *tab, const char *frame, int64_t prepared, const char *text,
		 const struct wait *wait, struct err *err)
{
	struct web_key key;
	json_t *args = json_pack("{s:I}", "prepared", (json_int_t)prepared);
	json_t *has_text = frame_js(tab, frame, "focus", args, wait, err);
	bool empties = !*text, had_text = json_is_true(has_text);
	json_decref(has_text);
	if (!has_text)
		return -1;
	if (!empties)
		return input_insert(tab, text, wait, err);
	if (!had_text)
		return 0;
	return web_key_named("Delete", &key, err) < 0 ? -1 : input_keys(tab, &key, 1, wait, err);
}

static int enter_in_turn(struct tab *tab, const char *frame, int64_t prepared, const char *text,
			 const struct wait *wait, struct err *err)
{
	if (turn_take(&tab->input, wait, err) < 0)
		return -1;
	int result = enter(tab, frame, prepared, text, wait, err);
	turn_give(&tab->input);
	return result;
}

json_t *act_fill(struct tab *tab, const struct act_target *target, const char *text,
		 const struct wait *wait, struct err *err)
{
	char frame[CDP_ID_MAX];
	if (no_dialog(tab, err) < 0)
		return NULL;
	json_t *ready =
		find(tab, target, "fill", json_pack("{s:s}", "text", text), frame, wait, err);
	int64_t prepared = cdp_int(ready, "prepared");
	if (ready && prepared && enter_in_turn(tab, frame, prepared, text, wait, err) < 0 &&
	    !has_taken_effect(tab, err)) {
		json_decref(ready);
		return NULL;
	}
	json_object_del(ready, "prepared");
	return ready;
}

json_t *act_select(struct tab *tab, const struct act_target *target, json_t *wanted,
		   const struct wait *wait, struct err *err)
{
	struct before before = look_before(tab);
	json_t *args = json_pack("{s:o}", "wanted", wanted);
	json_t *result = act_on(tab, target, "select", args, wait, err);
	if (result)
		settle(tab, &before, wait);
	return result;
}

static json_t *await_checked(struct tab *tab, const struct act_target *target,
			     const struct spot *spot, json_t *args, const struct wait *wait,
			     struct err *err)
{
	const bool checked = cdp_true(args, "checked");
	pthread_mutex_lock(&tab->lock);
	int64_t numbering = tab->numbering;
	pthread_mutex_unlock(&tab->lock);
	json_object_set_new(args, "target", target_json(target, numbering));
	json_object_set_new(args, "timeout_ms", json_integer(CHECKED_MS));
	json_t *is = frame_js(tab, spot->frame, "is_checked", args, wait, err);
	bool failed = is && !json_is_true(is);
	json_decref(is);
	if (failed)
		err_set(err, ERR_CONFLICT, "%s was clicked, but did not become %s", spot->element,
			checked ? "checked" : "unchecked");
	if (failed || (!is && !frame_js_gone(err) && !has_taken_effect(tab, err)))
		return NULL;
	return json_pack("{s:s, s:b}", "element", spot->element, "checked", checked);
}

static json_t *check_args(bool checked, const char *option)
{
	return json_pack("{s:b, s:s?}", "checked", checked, "option", option);
}

json_t *act_check(struct tab *tab, const struct act_target *target, bool checked,
		  const char *option, const struct wait *wait, struct err *err)
{
	struct spot spot;
	bool done;
	struct before before = look_before(tab);
	if (no_dialog(tab, err) < 0 || point_at(tab, target, "check", check_args(checked, option),
						&spot, &done, wait, err) < 0)
		return NULL;
	if (done)
		return json_pack("{s:s, s:b}", "element", spot.element, "checked", checked);
	if (click_there(tab, spot.at, INPUT_LEFT, 1, &before, wait, err) < 0)
		return NULL;
	return await_checked(tab, target, &spot, check_args(checked, option), wait, err);
}

/* ---- files ---- */

static int set_files(struct tab *tab, const char *session, const char *object,
		     const char *const *paths, size_t count, const struct wait *wait,
		     struct err *err)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(paths[i]));
	json_t *done = frame_call(tab, session, "DOM.setFileInputFiles",
				  json_pack("{s:o, s:s}", "files", list, "objectId", object), wait,
				  err);
	json_decref(done);
	return done ? 0 : -1;
}

int act_upload(struct tab *tab, const struct act_target *target, const char *const *paths,
	       size_t count, bool directory, const struct wait *wait, struct err *err)
{
	char frame[CDP_ID_MAX], session[CDP_ID_MAX];
	struct before before = look_before(tab);
	json_t *args = json_pack("{s:I, s:b}", "count", (json_int_t)count, "directory", directory);
	json_t *ready = find(tab, target, "file_field", json_incref(args), frame, wait, err);
	json_decref(ready);
	if (!ready) {
		json_decref(args);
		return -1;
	}
	pthread_mutex_lock(&tab->lock);
	int64_t numbering = tab->numbering;
	pthread_mutex_unlock(&tab->lock);
	json_object_set_new(args, "target", target_json(target, numbering));
	json_object_set_new(args, "timeout_ms", json_integer(left_ms(wait)));
	auto_free char *object =
		frame_js_handle(tab, frame, "file_field", args, session, wait, err);
	if (!object)
		return -1;
	int result = count ? set_files(tab, session, object, paths, count, wait, err) : 0;
	(void)cdp_post(tab->browser->cdp, session, "Runtime.releaseObject",
		       json_pack("{s:s}", "objectId", object));
	return finish(tab, result, &before, wait, err);
}

/* ---- keys ---- */

static int begin_keys(struct tab *tab, const struct wait *wait, struct err *err)
{
	return no_dialog(tab, err) < 0 ? -1 : turn_take(&tab->input, wait, err);
}

int act_type(struct tab *tab, const char *text, int64_t delay_ms, const struct wait *wait,
	     struct err *err)
{
	struct before before = look_before(tab);
	if (begin_keys(tab, wait, err) < 0)
		return -1;
	int result = input_type(tab, text, delay_ms, wait, err);
	turn_give(&tab->input);
	return finish(tab, result, &before, wait, err);
}

int act_keys(struct tab *tab, const struct web_key *keys, size_t count, const struct wait *wait,
	     struct err *err)
{
	struct before before = look_before(tab);
	if (begin_keys(tab, wait, err) < 0)
		return -1;
	int result = input_keys(tab, keys, count, wait, err);
	turn_give(&tab->input);
	return finish(tab, result, &before, wait, err);
}
