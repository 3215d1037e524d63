/* url_pattern.h - which URLs are meant: globs as Playwright has them.
 *
 * `*` is any text without a slash, `**` any text, a slash and `**` and a slash any number of directories,
 * {a,b} either of them, and \x x itself; a ? is a question mark. A pattern that has no scheme ("://") and
 * does not begin with `**` may begin anywhere in the URL; one that has no wildcard either, end anywhere.
 * Matching takes time in proportion to both lengths, whatever they hold. */
#pragma once
#include <stdbool.h>

struct arena;
struct buf;
struct err;
struct url_pattern;

enum { URL_PATTERN_MAX = 2048 };

/* In the arena. NULL with ERR_INVALID: it is empty or too long. */
const struct url_pattern *url_pattern_compile(const char *text, struct arena *arena,
					      struct err *err);

/* A fragment of the URL does not count. */
bool url_pattern_match(const struct url_pattern *pattern, const char *url);

/* Appends it in the words of the DevTools protocol, where * is any text: it matches no fewer URLs. */
void url_pattern_widen(const struct url_pattern *pattern, struct buf *to);
