/* Searching without ripgrep, as it would. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/regex.h"
#include "base/utf8.h"
#include "fs/grep.h"
#include "fs/regular.h"
#include "fs/text.h"
#include "fs/walk.h"

struct grep_pcre_search {
	struct grep *grep;
	struct regex *regex;
	struct buf text;
	const struct wait *wait;
	int result;
	struct err *err;
};

static bool go_on(struct grep_pcre_search *s)
{
	if (s->result < 0 || s->grep->why || grep_enough(s->grep))
		return false;
	enum wake wake = wait_check(s->wait);
	if (wake == WAKE_TIMEOUT)
		s->grep->why = "the search took too long";
	else if (wake != WAKE_READY)
		s->result = wake_err(wake, s->err);
	return wake == WAKE_READY;
}

/* ---- one file ---- */

struct grep_pcre_lines {
	const char *text;
	size_t len;
	int64_t number; /* of the line at `at` */
	size_t at;
};

static size_t line_end(const struct grep_pcre_lines *l, size_t at)
{
	const char *newline = at < l->len ? memchr(l->text + at, '\n', l->len - at) : NULL;
	return newline ? (size_t)(newline - l->text) + 1 : l->len;
}

static size_t line_start(const struct grep_pcre_lines *l, size_t at)
{
	const char *newline = at ? memrchr(l->text, '\n', at) : NULL;
	return newline ? (size_t)(newline - l->text) + 1 : 0;
}

/* Gives the lines from `from`, before the one at `to`, that are context: of the match before, which ends
 * at `from`, and of the one after, which begins at `to`. */
static void put_context(struct grep_pcre_search *s, struct grep_pcre_lines *l, size_t to, bool had,
			bool has)
{
	const struct grep_spec *spec = s->grep->spec;
	size_t back = to;
	for (int i = 0; has && i < spec->before && back > l->at; i++)
		back = line_start(l, back - 1);
	if (!has)
		back = l->len;
	for (int left = had ? spec->after : 0; l->at < to; l->number++) {
		size_t end = line_end(l, l->at);
		if (left-- > 0 || l->at >= back)
			grep_put(s->grep, l->number, l->text + l->at, end - l->at, false, 0);
		else if (!has)
			return;
		l->at = end;
	}
}

static void put_match(struct grep_pcre_search *s, struct grep_pcre_lines *l, size_t end,
		      size_t start)
{
	grep_put(s->grep, l->number, l->text + l->at, end - l->at, true, start);
	for (; l->at < end; l->number++)
		l->at = line_end(l, l->at);
}

/* Line by line, so that no match can reach into the next. */
static void search_lines(struct grep_pcre_search *s, struct grep_pcre_lines *l, bool valid)
{
	bool had = false;
	size_t line = 0, start, stop;
	while (line < l->len && go_on(s)) {
		size_t end = line_end(l, line), len = end - line;
		len -= len && l->text[line + len - 1] == '\n';
		len -= len && l->text[line + len - 1] == '\r';
		int found =
			regex_find(s->regex, l->text + line, len, 0, valid, &start, &stop, s->err);
		if (found < 0)
			s->result = -1;
		if (found > 0) {
			put_context(s, l, line, had, true);
			put_match(s, l, end, start);
			had = true;
		}
		line = end;
	}
	put_context(s, l, l->len, had, false);
}

/* All at once: matches whose lines touch are one. */
static void search_whole(struct grep_pcre_search *s, struct grep_pcre_lines *l, bool valid)
{
	bool had = false;
	size_t from = 0, start, stop, begin = 0, end = 0, first = 0;
	while (go_on(s)) {
		int found = from <= l->len ? regex_find(s->regex, l->text, l->len, from, valid,
							&start, &stop, s->err)
					   : 0;
		if (found < 0)
			s->result = -1;
		/* Behind the last newline there is no line. */
		bool real = found > 0 && (start < l->len || (start && l->text[start - 1] != '\n'));
		size_t next = real ? line_start(l, start) : l->len + 1;
		if (end > begin && next > end) {
			put_context(s, l, begin, had, true);
			put_match(s, l, end, first);
			had = true;
			begin = end = 0;
		}
		if (!real)
			break;
		if (end == begin) {
			begin = next;
			first = start - next;
		}
		size_t last = line_end(l, stop > start ? stop - 1 : start);
		end = last > end ? last : end;
		from = stop > start ? stop : stop + 1;
		while (from < l->len && ((unsigned char)l->text[from] & 0xc0) == 0x80)
			from++;
	}
	put_context(s, l, l->len, had, false);
}

static void search_text(struct grep_pcre_search *s, const char *path)
{
	struct grep_pcre_lines l = { s->text.data, s->text.len, 1, 0 };
	bool valid = utf8_valid(l.text, l.len);
	grep_open(s->grep, path);
	if (s->grep->spec->multiline)
		search_whole(s, &l, valid);
	else
		search_lines(s, &l, valid);
	grep_close(s->grep, true);
}

static int search_file(struct grep_pcre_search *s, int fd, const char *path, struct err *err)
{
	enum text_encoding encoding;
	s->text.len = 0;
	s->text.full = false;
	if (regular_read(fd, &s->text, err) < 0 || text_decode(&s->text, &encoding, err) < 0)
		return -1;
	s->grep->searched++;
	if (memchr(s->text.data, 0, s->text.len))
		s->grep->binary++;
	else
		search_text(s, path);
	return s->result;
}

/* ---- all files ---- */

static enum walk_next visit(const struct walk_entry *entry, void *arg)
{
	static const char *const never[] = { ".git", ".hg", ".svn" };
	struct grep_pcre_search *s = arg;
	const struct grep_spec *spec = s->grep->spec;
	struct stat st;
	if (!go_on(s))
		return WALK_STOP;
	for (size_t i = 0; i < COUNT(never); i++)
		if (!strcmp(entry->name, never[i]))
			return WALK_ON;
	if (globs_match(&spec->exclude, entry->path, entry->type == DT_DIR))
		return WALK_ON;
	if (entry->type == DT_DIR)
		return spec->recursive ? WALK_INTO : WALK_ON;
	if (entry->type != DT_REG || !grep_wanted(spec, entry->path))
		return WALK_ON;
	auto_close int fd = openat(entry->dir_fd, entry->name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > spec->max_file_size)
		return WALK_ON;
	(void)search_file(s, fd, entry->path, &(struct err){ 0 }); /* of what s->err is not told */
	return WALK_ON;
}

static int search(struct grep_pcre_search *s, struct err *err)
{
	const struct grep_spec *spec = s->grep->spec;
	s->grep->searched = 0;
	if (spec->is_dir) {
		if (walk_tree(spec->path, false, visit, s, err) < 0)
			return -1;
	} else {
		auto_close int fd = regular_open(spec->path, NULL, err);
		if (fd < 0 || search_file(s, fd, "", err) < 0)
			return -1;
	}
	if (grep_enough(s->grep))
		s->grep->why = "there are too many matches";
	return s->result;
}

int grep_pcre(struct grep *grep, struct err *err)
{
	const struct grep_spec *spec = grep->spec;
	size_t cap = spec->max_file_size < GREP_MEMORY_MAX ? (size_t)spec->max_file_size + 4096
							   : GREP_MEMORY_MAX;
	if (spec->type_name && !spec->type.count)
		return err_set(err, ERR_PATTERN, "there is no file type '%.60s'", spec->type_name);
	unsigned flags = (spec->literal ? REGEX_LITERAL : 0) | (spec->fold ? REGEX_FOLD : 0) |
			 (spec->multiline ? REGEX_LINES : 0);
	struct grep_pcre_search s = {
		.grep = grep, .text = BUF(cap * 2), .wait = &spec->wait, .err = err
	};
	s.regex = regex_compile(spec->pattern, strlen(spec->pattern), flags, err);
	int result = s.regex ? search(&s, err) : -1;
	regex_free(s.regex);
	buf_done(&s.text);
	return result;
}
