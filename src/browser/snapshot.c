#include "browser/snapshot.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/cdp_params.h"
#include "browser/tab.h"

enum {
	FRAME_MS = 3000, /* for one in the page: it may hang */
	LEVELS_MAX = 60,
};

struct ax_place {
	const char *frame; /* NULL: the main one */
	const char *prefix;
	int level, depth;
};

static int add_frame(struct tab *tab, const struct ax_place *place, const char *selector,
		     struct ax_tree *to, const struct wait *wait, struct err *err);

static struct wait a_while(const struct wait *wait)
{
	struct wait soon = *wait;
	int64_t until_ms = clock_ms() + FRAME_MS;
	soon.until_ms = until_ms < wait->until_ms ? until_ms : wait->until_ms;
	return soon;
}

/* ---- the frame that an element shows ---- */

static int find_frame(struct tab *tab, const char *parent, const char *ref, char ret[CDP_ID_MAX],
		      const struct wait *wait, struct err *err)
{
	char session[CDP_ID_MAX];
	auto_free char *handle = frame_js_handle(tab, parent, "snapshot_frame",
						 json_pack("{s:s}", "ref", ref), session, wait,
						 err);
	if (!handle)
		return -1;
	json_t *answer = frame_call(tab, session, "DOM.describeNode",
				    json_pack("{s:s, s:i}", "objectId", handle, "depth", 0), wait,
				    err);
	bool found = cdp_id(ret, CDP_ID_MAX, cdp_text(json_object_get(answer, "node"), "frameId"));
	if (answer && !found)
		err_set(err, ERR_CONFLICT, "it shows no frame");
	json_decref(answer);
	json_decref(frame_call(tab, session, "Runtime.releaseObject",
			       json_pack("{s:s}", "objectId", handle), wait, NULL));
	return found ? 0 : -1;
}

/* ---- lines ---- */

static void add_line(struct ax_tree *to, int level, const char *line, const char *end)
{
	if (buf_printf(&to->text, "%*s%s%s\n", 2 * level, "", line, end) < 0)
		to->cut = true;
}

/* As the page library indents, whatever a page says. */
static int level_of(const json_t *entry)
{
	int64_t level = cdp_int(entry, "level");
	return level < 0 ? 0 : level > LEVELS_MAX ? LEVELS_MAX : (int)level;
}

/* What a frame element shows, below its line. That it cannot be read is no failure of the page. */
static void add_inner(struct tab *tab, const struct ax_place *place, const json_t *entry,
		      struct ax_tree *to, const struct wait *wait)
{
	char id[CDP_ID_MAX], prefix[16], why[sizeof((struct err){ 0 }.msg) + 40];
	const struct wait soon = a_while(wait);
	struct err err = { 0 };
	int level = place->level + level_of(entry);
	if (to->frames >= SNAPSHOT_FRAMES_MAX || place->depth >= SNAPSHOT_DEPTH_MAX) {
		to->cut = true;
		return;
	}
	snprintf(prefix, sizeof prefix, "f%d", ++to->frames);
	const struct ax_place inner = { id, prefix, level, place->depth + 1 };
	if (find_frame(tab, place->frame, cdp_text(entry, "ref"), id, &soon, &err) == 0 &&
	    add_frame(tab, &inner, NULL, to, &soon, &err) == 0)
		return;
	snprintf(why, sizeof why, "- text: \"(not readable: %s)\"", err.msg);
	for (char *at = strchr(why, '(') + 1; *at; at++)
		*at = *at == '"' && at[1] ? '\'' : *at == '\\' ? '/' : *at;
	add_line(to, level, why, "");
}

static bool is_open(const char *line)
{
	size_t len = strlen(line);
	return len > 0 && line[len - 1] == ':';
}

static void add_lines(struct tab *tab, const struct ax_place *place, const json_t *value,
		      struct ax_tree *to, const struct wait *wait)
{
	const json_t *lines = json_object_get(value, "lines"), *line;
	const json_t *frames = json_object_get(value, "frames");
	size_t i, next = 0;
	json_array_foreach(lines, i, line) {
		const json_t *entry = json_array_get(frames, next);
		const char *text = json_string_value(line) ? json_string_value(line) : "";
		bool has = entry && cdp_int(entry, "line") == (int64_t)i;
		add_line(to, place->level, text, has && !is_open(text) ? ":" : "");
		if (!has)
			continue;
		add_inner(tab, place, entry, to, wait);
		next++;
	}
}

static int add_frame(struct tab *tab, const struct ax_place *place, const char *selector,
		     struct ax_tree *to, const struct wait *wait, struct err *err)
{
	json_t *args = json_pack("{s:s}", "prefix", place->prefix);
	if (selector)
		json_object_set_new(args, "selector", json_string(selector));
	json_t *value = frame_js(tab, place->frame, "snapshot", args, wait, err);
	if (!value)
		return -1;
	if (!to->title)
		to->title = xstrdup(cdp_text(value, "title"));
	to->cut = to->cut || cdp_true(value, "cut");
	add_lines(tab, place, value, to, wait);
	json_decref(value);
	return 0;
}

int snapshot_page(struct tab *tab, const char *selector, struct ax_tree *ret,
		  const struct wait *wait, struct err *err)
{
	const struct ax_place page = { NULL, "", 0, 0 };
	return add_frame(tab, &page, selector, ret, wait, err);
}
