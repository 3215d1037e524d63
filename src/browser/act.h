/* act.h - acting on elements of a page as a person would: waiting until one can be acted upon, then real
 * input. share/browser/act.js says what that means.
 *
 * An element is meant by a selector or by the index that act_elements() gave it. It is looked for in the main
 * frame first, then in the others, in the order in which they came; the first frame that has it is taken. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "browser/input.h"

struct err;
struct tab;

/* So long before its wait is over a call has the page say what it has waited for in vain. */
enum { ACT_ELEMENTS_MAX = 2000, ACT_FILES_MAX = 1000, ACT_GRACE_MS = 3000 };

struct act_target {
	const char *selector; /* NULL: the index counts */
	int64_t index;
};

/* Calls a function of the page library with what `args` has (taken) and target, in the frame that has the
 * element. Its value; NULL with err. Waits for the element, and begins again in the next document if the
 * page goes to another one. */
json_t *act_on(struct tab *tab, const struct act_target *target, const char *function, json_t *args,
	       const struct wait *wait, struct err *err);

/* What follows returns what was acted upon, as JSON, or NULL with err. What the page does then may be that
 * it opens a dialog, goes to another document (which is waited for, a little), or closes. */

json_t *act_click(struct tab *tab, const struct act_target *target, enum input_button button,
		  int64_t count, const struct wait *wait, struct err *err);
json_t *act_click_at(struct tab *tab, struct input_point at, enum input_button button,
		     int64_t count, const struct wait *wait, struct err *err);
json_t *act_hover(struct tab *tab, const struct act_target *target, const struct wait *wait,
		  struct err *err);
json_t *act_hover_at(struct tab *tab, struct input_point at, const struct wait *wait,
		     struct err *err);
json_t *act_fill(struct tab *tab, const struct act_target *target, const char *text,
		 const struct wait *wait, struct err *err);

/* wanted: a list of objects of value, label and index; taken. */
json_t *act_select(struct tab *tab, const struct act_target *target, json_t *wanted,
		   const struct wait *wait, struct err *err);
/* option: of the group of that radio button, the one of this value or label; NULL: itself. */
json_t *act_check(struct tab *tab, const struct act_target *target, bool checked,
		  const char *option, const struct wait *wait, struct err *err);

/* Absolute paths, which the browser opens itself; directory: the only one is one. */
int act_upload(struct tab *tab, const struct act_target *target, const char *const *paths,
	       size_t count, bool directory, const struct wait *wait, struct err *err);

/* Types or presses keys where the focus is. */
struct web_key;
int act_type(struct tab *tab, const char *text, int64_t delay_ms, const struct wait *wait,
	     struct err *err);
int act_keys(struct tab *tab, const struct web_key *keys, size_t count, const struct wait *wait,
	     struct err *err);

/* The elements that can be used, of all frames: a list of what elements.js says of each. */
json_t *act_elements(struct tab *tab, size_t max, const struct wait *wait, struct err *err);
