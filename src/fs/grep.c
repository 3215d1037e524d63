#include "fs/grep.h"

#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

enum { SLACK = 1024 };

void grep_init(struct grep *grep, const struct grep_spec *spec)
{
	*grep = (struct grep){ .spec = spec, .searched = -1 };
}

static void file_free(struct grep_file *file)
{
	if (!file)
		return;
	buf_done(&file->text);
	free(file->lines);
	free(file->path);
	free(file);
}

static void clear(struct grep *grep)
{
	for (size_t i = 0; i < grep->count; i++)
		file_free(grep->files[i]);
	file_free(grep->current);
	free(grep->files);
	free(grep->bound);
}

void grep_done(struct grep *grep)
{
	clear(grep);
	*grep = (struct grep){ 0 };
}

int grep_run(struct grep *grep, struct err *err)
{
	int result = grep_rg(grep, err);
	if (result <= 0)
		return result;
	const struct grep_spec *spec = grep->spec;
	clear(grep);
	grep_init(grep, spec);
	return grep_pcre(grep, err);
}

bool grep_wanted(const struct grep_spec *spec, const char *path)
{
	return (!spec->include.count || globs_match(&spec->include, path, false)) &&
	       (!spec->type.count || globs_match(&spec->type, path, false)) &&
	       !globs_cover(&spec->exclude, path, false);
}

bool grep_enough(const struct grep *grep)
{
	size_t open = grep->current ? grep->current->matches : 0;
	return grep->matches + open >= GREP_MATCHES_MAX;
}

/* How many matches can be asked for. */
static size_t needed(const struct grep *grep)
{
	return grep->spec->offset + grep->spec->max_results;
}

/* ---- order ---- */

/* As if each directory were read in turn: a slash comes before all that can be in a name. */
static int compare_paths(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	int left = *a == '/' ? 1 : (unsigned char)*a + (*a != 0);
	int right = *b == '/' ? 1 : (unsigned char)*b + (*b != 0);
	return left - right;
}

static int compare_files(const void *a, const void *b)
{
	return compare_paths((*(struct grep_file *const *)a)->path,
			     (*(struct grep_file *const *)b)->path);
}

/* Keeps the first files only: as many as can be asked for, and as there may be. */
static void prune(struct grep *grep)
{
	size_t matches = 0, text = 0, count = 0;
	if (grep->count)
		qsort(grep->files, grep->count, sizeof *grep->files, compare_files);
	while (count < grep->count && matches < needed(grep) &&
	       text + grep->files[count]->text.len <= GREP_TEXT_MAX) {
		text += grep->files[count]->text.len;
		matches += grep->files[count++]->kept;
	}
	if (count < grep->count && matches < needed(grep)) {
		free(grep->bound);
		grep->bound = xstrdup(grep->files[count]->path);
	}
	for (size_t i = count; i < grep->count; i++)
		file_free(grep->files[i]);
	grep->count = count;
	grep->kept = matches;
	grep->text = text;
}

/* ---- collecting ---- */

void grep_open(struct grep *grep, const char *path)
{
	file_free(grep->current);
	grep->current = xcalloc(1, sizeof *grep->current);
	grep->current->path = xstrdup(path);
	buf_init(&grep->current->text, GREP_TEXT_MAX);
}

static void add_line(struct grep_file *file, const struct grep_line *line)
{
	if (file->count == file->room) {
		file->room = file->room ? file->room * 2 : 8;
		file->lines = xrealloc(file->lines, file->room * sizeof *file->lines);
	}
	file->lines[file->count++] = *line;
}

static size_t trim_end(const char *text, size_t len)
{
	if (len && text[len - 1] == '\n')
		len--;
	if (len && text[len - 1] == '\r')
		len--;
	return len;
}

/* The part of a long line that is kept: around the match, and no half character. */
static size_t window(const char *text, size_t *len, size_t max, size_t start)
{
	size_t from = 0;
	if (*len <= max)
		return 0;
	if (start > max / 2)
		from = start - max / 4;
	if (from > *len - max)
		from = *len - max;
	while (from && from < *len && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	*len = *len - from < max ? *len - from : max;
	*len -= utf8_partial(text + from, *len);
	return from;
}

static size_t count_lines(const char *text, size_t len)
{
	size_t lines = 1;
	for (const char *at = text, *end = text + len; (at = memchr(at, '\n', (size_t)(end - at)));
	     at++)
		lines++;
	return lines;
}

void grep_put(struct grep *grep, int64_t number, const char *text, size_t len, bool match,
	      size_t start)
{
	struct grep_file *file = grep->current;
	file->matches += match;
	bool full = file->kept >= needed(grep);
	if (full && number > file->last + grep->spec->after)
		return;
	match = match && !full; /* else it is context of the last one */
	size_t whole = trim_end(text, len), kept = whole;
	size_t lines = match ? count_lines(text, whole) : 1;
	size_t from = window(text, &kept, lines > 1 ? GREP_BLOCK_MAX : GREP_LINE_MAX,
			     lines > 1 ? 0 : start);
	struct grep_line line = { number, file->text.len, kept, match ? lines : 0, kept < whole };
	if (buf_add(&file->text, text + from, kept) < 0)
		return;
	add_line(file, &line);
	if (!match)
		return;
	file->kept++;
	file->last = number + (int64_t)lines - 1;
	/* The other lines of a match are context of the next one. */
	const char *base = file->text.data + line.at, *end = base + kept, *at = base;
	for (size_t i = 1; i < lines && (at = memchr(at, '\n', (size_t)(end - at))); i++) {
		at++;
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct grep_line next = { number + (int64_t)i, line.at + (size_t)(at - base),
					  trim_end(at, (size_t)((stop ? stop : end) - at)), 0,
					  line.cut };
		add_line(file, &next);
	}
}

void grep_close(struct grep *grep, bool keep)
{
	struct grep_file *file = TAKE(grep->current);
	if (!file || !keep || !file->matches) {
		file_free(file);
		return;
	}
	grep->matches += file->matches;
	grep->matched++;
	if (grep->bound && compare_paths(file->path, grep->bound) >= 0) {
		file_free(file);
		return;
	}
	if (grep->count == grep->room) {
		grep->room = grep->room ? grep->room * 2 : 64;
		grep->files = xrealloc(grep->files, grep->room * sizeof *grep->files);
	}
	grep->files[grep->count++] = file;
	grep->kept += file->kept;
	grep->text += file->text.len;
	if (grep->kept > 2 * needed(grep) + SLACK || grep->text > GREP_TEXT_MAX)
		prune(grep);
}

/* ---- showing ---- */

static void find_context(const struct grep_spec *spec, struct grep_hit *hit, size_t at)
{
	const struct grep_file *file = hit->file;
	const struct grep_line *line = &file->lines[at];
	size_t first = at, next = at + 1, last;
	int64_t end = line->number + (int64_t)line->lines - 1;
	while (first && file->lines[first - 1].number >= line->number - spec->before)
		first--;
	while (next < file->count && file->lines[next].number <= end)
		next++; /* the rest of the match itself */
	for (last = next; last < file->count && file->lines[last].number <= end + spec->after;)
		last++;
	hit->line = line;
	hit->before = &file->lines[first];
	hit->before_count = at - first;
	hit->after = &file->lines[next];
	hit->after_count = last - next;
}

bool grep_next(struct grep *grep, struct grep_hit *hit)
{
	if (!hit->seen && !hit->file_at && !hit->line_at)
		prune(grep);
	for (; hit->file_at < grep->count; hit->file_at++, hit->line_at = 0) {
		hit->file = grep->files[hit->file_at];
		while (hit->line_at < hit->file->count) {
			size_t at = hit->line_at++;
			if (!hit->file->lines[at].lines || hit->seen++ < grep->spec->offset)
				continue;
			if (hit->seen > needed(grep))
				return false;
			find_context(grep->spec, hit, at);
			return true;
		}
	}
	return false;
}

bool grep_truncated(const struct grep *grep)
{
	return grep->matches > needed(grep) || grep->bound || grep->why;
}
