#include "browser/url_pattern.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

/* A program of steps. Those that consume nothing lead forward only, so one pass over the steps finds all
 * that can be reached. */
enum step_kind {
	CHAR,    /* c */
	SEGMENT, /* any text without a slash */
	ANY,
	SPLIT, /* the next step, or the one at `to` */
	JUMP,  /* to `to` */
};
struct url_step {
	enum step_kind kind;
	char c;
	size_t to;
};
struct url_pattern {
	size_t count;
	bool origin; /* ends with the host: an URL has a slash behind that */
	struct url_step *steps;
};

enum { STEPS_MAX = 3 * URL_PATTERN_MAX + 16 };

static struct url_step *add(struct url_pattern *pattern, enum step_kind kind, char c)
{
	struct url_step *step = &pattern->steps[pattern->count++];
	*step = (struct url_step){ kind, c, 0 };
	return step;
}

/* Any number of directories: nothing, or any text and a slash. */
static void add_directories(struct url_pattern *pattern)
{
	struct url_step *split = add(pattern, SPLIT, 0);
	add(pattern, ANY, 0);
	add(pattern, CHAR, '/');
	split->to = pattern->count;
}

static const char *add_stars(struct url_pattern *pattern, const char *at, bool behind_slash)
{
	bool two = at[1] == '*';
	at += strspn(at, "*");
	if (!two) {
		add(pattern, SEGMENT, 0);
	} else if (behind_slash && *at == '/') {
		add_directories(pattern);
		at++;
	} else {
		add(pattern, ANY, 0);
	}
	return at;
}

static const char *closing(const char *at)
{
	for (; *at && *at != '}' && *at != '{'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at == '}' ? at : NULL;
}

static const char *add_one(struct url_pattern *pattern, const char *at, const char *start)
{
	if (*at == '*')
		return add_stars(pattern, at, at == start || at[-1] == '/');
	if (*at == '\\' && at[1])
		at++;
	add(pattern, CHAR, *at);
	return at + 1;
}

/* What stands between braces: each alternative begins with a SPLIT that leads to the next one, and ends
 * with a JUMP behind the last. */
static const char *add_choice(struct url_pattern *pattern, const char *at, const char *end)
{
	size_t split = pattern->count, last = SIZE_MAX;
	const char *start = at;
	add(pattern, SPLIT, 0);
	while (at < end) {
		if (*at != ',') {
			at = add_one(pattern, at, start);
			continue;
		}
		add(pattern, JUMP, 0)->to = last;
		last = pattern->count - 1;
		pattern->steps[split].to = pattern->count;
		split = pattern->count;
		add(pattern, SPLIT, 0);
		at++;
	}
	pattern->steps[split] = (struct url_step){ JUMP, 0, split + 1 };
	for (size_t next; last != SIZE_MAX; last = next) {
		next = pattern->steps[last].to;
		pattern->steps[last].to = pattern->count;
	}
	return end + 1;
}

static void compile(struct url_pattern *pattern, const char *text)
{
	for (const char *at = text, *end; *at;) {
		if (*at == '{' && (end = closing(at + 1)))
			at = add_choice(pattern, at + 1, end);
		else
			at = add_one(pattern, at, text);
	}
}

const struct url_pattern *url_pattern_compile(const char *text, struct arena *arena,
					      struct err *err)
{
	size_t len = strlen(text);
	const char *scheme = strstr(text, "://");
	if (!len || len > URL_PATTERN_MAX) {
		err_set(err, ERR_INVALID, "a URL pattern has 1 to %d bytes, not %zu",
			URL_PATTERN_MAX, len);
		return NULL;
	}
	struct url_pattern *pattern = arena_alloc(arena, sizeof *pattern);
	bool plain = !strpbrk(text, "*{\\"), open = !scheme && strncmp(text, "**", 2) != 0;
	*pattern = (struct url_pattern){ .origin = scheme && !strchr(scheme + 3, '/') };
	pattern->steps = arena_alloc(arena, STEPS_MAX * sizeof *pattern->steps);
	if (open)
		add(pattern, ANY, 0);
	compile(pattern, text);
	if (open && plain)
		add(pattern, ANY, 0);
	return pattern;
}

/* ---- matching ---- */

/* Marks what can be reached without consuming anything; whether anything is marked. */
static bool spread(const struct url_pattern *pattern, char *marked)
{
	bool any = false;
	for (size_t i = 0; i < pattern->count; i++) {
		const struct url_step *step = &pattern->steps[i];
		if (!marked[i])
			continue;
		any = true;
		if (step->kind != CHAR && step->kind != JUMP)
			marked[i + 1] = 1;
		if (step->kind == SPLIT || step->kind == JUMP)
			marked[step->to] = 1;
	}
	return any;
}

static void consume(const struct url_pattern *pattern, const char *marked, char *next, char c)
{
	for (size_t i = 0; i < pattern->count; i++) {
		const struct url_step *step = &pattern->steps[i];
		if (!marked[i])
			continue;
		if (step->kind == CHAR && step->c == c)
			next[i + 1] = 1;
		else if (step->kind == ANY || (step->kind == SEGMENT && c != '/'))
			next[i] = 1;
	}
}

bool url_pattern_match(const struct url_pattern *pattern, const char *url)
{
	char states[2][STEPS_MAX + 1];
	char *marked = states[0], *next = states[1];
	const size_t room = pattern->count + 1;
	memset(marked, 0, room);
	marked[0] = 1;
	bool any = spread(pattern, marked);
	for (; any && *url && *url != '#'; url++) {
		if (pattern->origin && marked[pattern->count] && url[0] == '/' &&
		    (!url[1] || url[1] == '#'))
			break;
		memset(next, 0, room);
		consume(pattern, marked, next, *url);
		any = spread(pattern, next);
		char *swap = marked;
		marked = next;
		next = swap;
		any |= marked[pattern->count];
	}
	return marked[pattern->count];
}

void url_pattern_widen(const struct url_pattern *pattern, struct buf *to)
{
	size_t behind = 0; /* steps before this one are a choice */
	bool star = false;
	for (size_t i = 0; i < pattern->count; i++) {
		const struct url_step *step = &pattern->steps[i];
		if (step->kind == SPLIT || step->kind == JUMP)
			behind = step->to > behind ? step->to : behind;
		if (step->kind != CHAR || i < behind) {
			if (!star)
				buf_str(to, "*");
			star = true;
			continue;
		}
		star = false;
		if (strchr("*?\\", step->c))
			buf_str(to, "\\");
		buf_add(to, &step->c, 1);
	}
	if (pattern->origin && !star)
		buf_str(to, "*");
}
