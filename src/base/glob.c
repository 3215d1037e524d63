#include "base/glob.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

/* Directories of a pattern are the states of a machine, kept as bits. */
enum { PARTS_MAX = 63, ALTERNATIVES_MAX = 256, SET_ALTERNATIVES_MAX = 10000, BRACES_MAX = 64 };

struct alternative {
	char *text;                   /* the parts, each ended by NUL */
	const char *parts[PARTS_MAX]; /* NULL: ** */
	size_t count;
};

struct glob {
	struct alternative *alternatives;
	size_t count;
	bool recursive, dir_only;
	bool rooted; /* it has a slash: it is about a path, not a name */
};

/* ---- one name ---- */

static size_t take_char(const char *text, uint32_t *ret)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	size_t len = *text ? utf8_char(text, strnlen(text, 4)) : 0;
	if (!len) { /* a byte that is no character is like no other */
		*ret = 0x110000u + (unsigned char)*text;
		return *text ? 1 : 0;
	}
	*ret = (unsigned char)text[0] & masks[len];
	for (size_t i = 1; i < len; i++)
		*ret = *ret << 6 | ((unsigned char)text[i] & 0x3f);
	return len;
}

/* The length of the class at text, with its brackets; 0 when it has no end. */
static size_t class_length(const char *text)
{
	size_t at = 1;
	if (text[at] == '!' || text[at] == '^')
		at++;
	for (size_t first = at; text[at] && text[at] != '/'; at++) {
		if (text[at] == ']' && at > first)
			return at + 1;
		if (text[at] == '\\' && text[at + 1])
			at++;
	}
	return 0;
}

static size_t class_char(const char *text, uint32_t *ret)
{
	bool escaped = *text == '\\' && text[1];
	return take_char(text + escaped, ret) + escaped;
}

static bool class_match(const char *text, size_t len, uint32_t code)
{
	const char *end = text + len - 1;
	bool found = false, negated = text[1] == '!' || text[1] == '^';
	for (text += 1 + negated; text < end;) {
		uint32_t low, high;
		text += class_char(text, &low);
		high = low;
		if (*text == '-' && text + 1 < end)
			text += 1 + class_char(text + 1, &high);
		found = found || (low <= code && code <= high);
	}
	return found != negated;
}

/* The length of the element at pattern if it matches the character; 0 if it does not. */
static size_t element_match(const char *pattern, const char *name, size_t char_len, uint32_t code)
{
	size_t len = *pattern == '[' ? class_length(pattern) : 0;
	if (len)
		return class_match(pattern, len, code) ? len : 0;
	if (*pattern == '?')
		return 1;
	size_t escape = *pattern == '\\' && pattern[1];
	return strncmp(pattern + escape, name, char_len) == 0 ? char_len + escape : 0;
}

static bool name_match(const char *pattern, const char *name, bool hidden)
{
	const char *star = NULL, *retry = NULL;
	if (*name == '.' && !hidden && *pattern != '.' && strncmp(pattern, "\\.", 2) != 0)
		return false;
	while (*name) {
		uint32_t code;
		size_t char_len = take_char(name, &code), len;
		if (*pattern == '*') {
			star = ++pattern;
			retry = name;
		} else if (*pattern && (len = element_match(pattern, name, char_len, code))) {
			pattern += len;
			name += char_len;
		} else if (star) {
			pattern = star;
			retry += take_char(retry, &code);
			name = retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* ---- a path ---- */

/* A state also stands where each ** after it may match nothing. */
static uint64_t skip_any(const struct alternative *a, uint64_t states)
{
	for (size_t i = 0; i < a->count; i++)
		if (!a->parts[i] && states >> i & 1)
			states |= (uint64_t)1 << (i + 1);
	return states;
}

static uint64_t step(const struct alternative *a, uint64_t states, const char *name, bool hidden)
{
	uint64_t next = 0;
	for (size_t i = 0; i < a->count; i++) {
		if (!(states >> i & 1))
			continue;
		if (!a->parts[i])
			next |= (uint64_t)(hidden || *name != '.') << i;
		else if (name_match(a->parts[i], name, hidden))
			next |= (uint64_t)1 << (i + 1);
	}
	return skip_any(a, next);
}

unsigned glob_match(const struct glob *glob, const char *path, bool hidden)
{
	unsigned result = GLOB_NO;
	for (size_t i = 0; i < glob->count; i++) {
		const struct alternative *a = &glob->alternatives[i];
		uint64_t end = (uint64_t)1 << a->count, states = skip_any(a, 1);
		for (const char *at = path; *at && states;) {
			char name[256]; /* no file system has longer ones */
			size_t len = strcspn(at, "/");
			size_t kept = len < sizeof name ? len : sizeof name - 1;
			memcpy(name, at, kept);
			name[kept] = 0;
			states = step(a, states, name, hidden);
			at += len + (at[len] == '/');
		}
		result |= (states & end ? GLOB_YES : 0) | (states & ~end ? GLOB_BELOW : 0);
	}
	return result;
}

/* ---- compiling ---- */

/* How many dots a part consists of, however they are written; 0: of something else. */
static size_t dots(const char *part)
{
	size_t count = 0;
	for (; *part; part++, count++) {
		part += *part == '\\' && part[1];
		if (*part != '.')
			return 0;
	}
	return count;
}

static int add_alternative(struct glob *glob, const char *text, struct err *err)
{
	if (glob->count == ALTERNATIVES_MAX)
		return err_set(err, ERR_PATTERN, "a pattern has more than %d alternatives",
			       ALTERNATIVES_MAX);
	glob->alternatives =
		xrealloc(glob->alternatives, (glob->count + 1) * sizeof *glob->alternatives);
	struct alternative *a = &glob->alternatives[glob->count++];
	*a = (struct alternative){ .text = xstrdup(text) };
	char *next = a->text;
	while (next) {
		char *part = strsep(&next, "/");
		bool any = !strcmp(part, "**");
		if (!*part || dots(part) == 1)
			continue;
		if (dots(part) == 2)
			return err_set(err, ERR_PATTERN, "'..' in the pattern '%.100s'", text);
		if (any && a->count && !a->parts[a->count - 1])
			continue; /* twice is once */
		if (a->count == PARTS_MAX)
			return err_set(err, ERR_PATTERN, "a pattern has more than %d directories",
				       PARTS_MAX);
		glob->recursive = glob->recursive || any;
		a->parts[a->count++] = any ? NULL : part;
	}
	return 0;
}

/* The next byte of a pattern that is neither escaped nor in a class. */
static const char *next_plain(const char *at)
{
	if (*at == '\\' && at[1])
		return at + 2;
	size_t len = *at == '[' ? class_length(at) : 0;
	return at + (len ? len : 1);
}

/* The brace that closes the one at `open`, or NULL. */
static const char *closing(const char *open)
{
	int depth = 0;
	for (const char *at = open; *at; at = next_plain(at)) {
		depth += *at == '{';
		depth -= *at == '}';
		if (!depth)
			return at;
	}
	return NULL;
}

static int expand(struct glob *glob, const char *pattern, const char *from, int braces,
		  struct err *err)
{
	const char *open = from, *close = NULL;
	for (; *open; open = next_plain(open))
		if (*open == '{' && (close = closing(open)))
			break;
	if (!*open)
		return add_alternative(glob, pattern, err);
	if (braces == BRACES_MAX)
		return err_set(err, ERR_PATTERN, "a pattern has more than %d pairs of braces",
			       BRACES_MAX);
	int depth = 0, result = 0;
	const char *begin = open + 1;
	for (const char *at = begin; result == 0 && at <= close; at = next_plain(at)) {
		if (at == close || (*at == ',' && !depth)) {
			auto_free char *one = xasprintf("%.*s%.*s%s", (int)(open - pattern),
							pattern, (int)(at - begin), begin,
							close + 1);
			result = expand(glob, one, one + (open - pattern), braces + 1, err);
			begin = at + 1;
		}
		depth += *at == '{';
		depth -= *at == '}';
	}
	return result;
}

struct glob *glob_compile(const char *pattern, struct err *err)
{
	struct glob *glob = xcalloc(1, sizeof *glob);
	size_t len = strlen(pattern);
	const char *slash = strchr(pattern, '/');
	glob->dir_only = len > 1 && pattern[len - 1] == '/';
	glob->rooted = slash && slash < pattern + len - 1;
	int result = len > GLOB_LENGTH_MAX
			     ? err_set(err, ERR_PATTERN, "a pattern is longer than %d bytes",
				       GLOB_LENGTH_MAX)
			     : expand(glob, pattern, pattern, 0, err);
	if (result == 0)
		return glob;
	glob_free(glob);
	return NULL;
}

void glob_free(struct glob *glob)
{
	for (size_t i = 0; glob && i < glob->count; i++)
		free(glob->alternatives[i].text);
	if (glob)
		free(glob->alternatives);
	free(glob);
}

bool glob_recursive(const struct glob *glob)
{
	return glob->recursive;
}

/* ---- for others ---- */

size_t glob_count(const struct glob *glob)
{
	return glob->count;
}

static bool put_name(const char *at, struct buf *to)
{
	bool exact = true, starred = false; /* "a**b" means "a*b", and some object to it */
	while (*at) {
		size_t class = *at == '[' ? class_length(at) : 0;
		bool escape = *at == '\\' && at[1];
		at += escape;
		bool star = class || (!escape && (*at == '?' || *at == '*'));
		if (star) {
			exact = exact && *at == '*';
			buf_str(to, starred ? "" : "*");
			at += class ? class : 1;
		} else if (strchr("*?[]{}\\!#^-, ", *at)) {
			buf_printf(to, "\\%c", *at++);
		} else {
			buf_add(to, at++, 1);
		}
		starred = star;
	}
	return exact;
}

bool glob_text(const struct glob *glob, size_t index, struct buf *to)
{
	const struct alternative *a = &glob->alternatives[index];
	bool exact = true;
	for (size_t i = 0; i < a->count; i++) {
		auto_buf struct buf name = BUF(GLOB_LENGTH_MAX * 2);
		if (a->parts[i])
			exact = put_name(a->parts[i], &name) && exact;
		else
			buf_str(&name, "**");
		buf_printf(to, "%s%s", i || glob->rooted ? "/" : "", name.data);
	}
	if (glob->dir_only)
		buf_str(to, "/");
	return exact;
}

int globs_compile(struct globs *globs, const struct list *patterns, struct err *err)
{
	*globs = (struct globs){ 0 };
	if (patterns->count > GLOB_SET_MAX)
		return err_set(err, ERR_PATTERN, "more than %d patterns", GLOB_SET_MAX);
	size_t alternatives = 0;
	globs->items = xcalloc(patterns->count + 1, sizeof *globs->items);
	for (size_t i = 0; i < patterns->count; i++) {
		struct glob *glob = glob_compile(((const char *const *)patterns->items)[i], err);
		if (glob) {
			globs->items[globs->count++] = glob;
			alternatives += glob->count;
		}
		if (glob && alternatives > SET_ALTERNATIVES_MAX)
			err_set(err, ERR_PATTERN, "the patterns have more than %d alternatives",
				SET_ALTERNATIVES_MAX);
		if (!glob || alternatives > SET_ALTERNATIVES_MAX) {
			globs_done(globs);
			return -1;
		}
	}
	return 0;
}

void globs_done(struct globs *globs)
{
	for (size_t i = 0; i < globs->count; i++)
		glob_free(globs->items[i]);
	free(globs->items);
	*globs = (struct globs){ 0 };
}

bool globs_match(const struct globs *globs, const char *path, bool is_dir)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	for (size_t i = 0; i < globs->count; i++) {
		const struct glob *glob = globs->items[i];
		if (glob->dir_only && !is_dir)
			continue;
		if (glob_match(glob, glob->rooted ? path : name, true) & GLOB_YES)
			return true;
	}
	return false;
}

bool globs_cover(const struct globs *globs, const char *path, bool is_dir)
{
	if (!globs->count)
		return false;
	if (globs_match(globs, path, is_dir))
		return true;
	auto_free char *dir = xstrdup(path);
	for (char *slash; (slash = strrchr(dir, '/'));) {
		*slash = 0;
		if (globs_match(globs, dir, true))
			return true;
	}
	return false;
}
