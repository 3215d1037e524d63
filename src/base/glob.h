/* glob.h - shell patterns for paths: * ? [a-z] [!a-z] {a,b} \x, and ** for any number of directories.
 *
 * No wildcard but ** crosses a slash. A [ that nothing closes, and an unbalanced { stand for
 * themselves. Paths are relative, without "." or ".." in them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct glob;
struct list;

enum { GLOB_LENGTH_MAX = 4096, GLOB_SET_MAX = 1000 };

/* NULL with ERR_PATTERN for a pattern that is too long, has too many alternatives, or "..". */
struct glob *glob_compile(const char *pattern, struct err *err);
void glob_free(struct glob *glob); /* NULL is fine */

/* What a path has to do with a pattern: bits. */
enum glob_result { GLOB_NO = 0, GLOB_YES = 1, GLOB_BELOW = 2 /* something below it may match */ };

/* Without `hidden`, wildcards do not match a name that begins with a dot, as in a shell. */
unsigned glob_match(const struct glob *glob, const char *path, bool hidden);

bool glob_recursive(const struct glob *glob); /* it has a ** */

/* How many patterns without braces it stands for, and one of them in the words of a .gitignore, where
 * ? and [ ] are widened to *. False when something was widened. */
size_t glob_count(const struct glob *glob);
bool glob_text(const struct glob *glob, size_t index, struct buf *to);

/* Patterns that pick files of a tree: one without a slash is about the name, at any depth; one with a
 * slash about the path; one that ends with a slash about directories only. */
struct globs {
	struct glob **items;
	size_t count;
};

/* From a list of strings. On error nothing is kept. */
int globs_compile(struct globs *globs, const struct list *patterns, struct err *err);
void globs_done(struct globs *globs);

bool globs_match(const struct globs *globs, const char *path, bool is_dir);

/* Whether they match the path, or one of the directories it is in. */
bool globs_cover(const struct globs *globs, const char *path, bool is_dir);
