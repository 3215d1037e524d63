/* grep.h - lines that match, in the files of a tree: in the order of their paths, however they were
 * found.
 *
 * ripgrep finds them where it is installed and understands the pattern; else, and for look-around and
 * back-references, PCRE2 does, in this thread. Both search the same files: hidden ones too, whatever
 * ignore files say, but neither .git, .hg and .svn, nor what is no text, nor through symbolic links. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/glob.h"
#include "base/wait.h"

struct err;
struct user;

enum {
	GREP_CONTEXT_MAX = 20,
	GREP_LINE_MAX = 8192,       /* bytes of a line that are kept */
	GREP_BLOCK_MAX = 65536,     /* of a match of many lines */
	GREP_MATCHES_MAX = 1000000, /* after which a search ends */
	GREP_TEXT_MAX = 64 << 20,   /* bytes of lines that are kept altogether */
	GREP_MEMORY_MAX = 64 << 20, /* largest file that is searched without ripgrep */
};

struct grep_spec {
	const char *path, *pattern; /* an absolute path: a directory or a file */
	bool is_dir, recursive, fold, literal, multiline;
	int before, after; /* lines of context */
	int64_t max_file_size;
	size_t offset, max_results;
	struct globs include, exclude, type; /* empty: all, none, all */
	const char *type_name;               /* of one that only ripgrep may know */
	const struct user *user;             /* NULL: as the server */
	struct wait wait;
};

/* A line, or the first of a match of several. */
struct grep_line {
	int64_t number;
	size_t at, len; /* in the file's text */
	size_t lines;   /* of a match; 0: not one */
	bool cut;       /* it is longer than what is kept */
};

struct grep_file {
	char *path; /* relative; of a file that was named itself, "" */
	struct buf text;
	struct grep_line *lines;
	size_t count, room, matches, kept; /* kept: matches among the lines */
	int64_t last;                      /* line of the last match that is kept */
};

struct grep {
	const struct grep_spec *spec;
	struct grep_file **files;
	size_t count, room;
	size_t kept, text;       /* of all files */
	size_t matches, matched; /* all that were found, and in how many files */
	int64_t searched;        /* files; -1: not known */
	size_t binary;           /* of these, how many are known to be no text */
	char *bound;             /* from this path on nothing is kept */
	struct grep_file *current;
	const char *why; /* the search did not come to its end */
};

void grep_init(struct grep *grep, const struct grep_spec *spec);
void grep_done(struct grep *grep);

/* Searches. -1 with ERR_PATTERN, ERR_GONE, or what went wrong. */
int grep_run(struct grep *grep, struct err *err);

/* What to show: after `offset` matches at most `max_results`, in order. False when there is no more;
 * the cursor starts as zeroes. */
struct grep_hit {
	const struct grep_file *file;
	const struct grep_line *line;
	const struct grep_line *before, *after; /* lines of context, one after the other */
	size_t before_count, after_count;
	size_t file_at, line_at, seen; /* where to go on */
};
bool grep_next(struct grep *grep, struct grep_hit *hit);

/* Whether there are more matches than were shown. */
bool grep_truncated(const struct grep *grep);

/* ---- for what searches ---- */

/* Lines of one file, in order, between open and close; those of a match, or of its context. `start` is
 * where the match begins in the text. A file that turns out to be no text is not kept. */
void grep_open(struct grep *grep, const char *path);
void grep_put(struct grep *grep, int64_t number, const char *text, size_t len, bool match,
	      size_t start);
void grep_close(struct grep *grep, bool keep);
bool grep_enough(const struct grep *grep);

/* Whether a file is to be searched. */
bool grep_wanted(const struct grep_spec *spec, const char *path);

int grep_rg(struct grep *grep, struct err *err); /* 1: it cannot, and nothing was done */
int grep_pcre(struct grep *grep, struct err *err);
