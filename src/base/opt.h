/* opt.h - the options of a command, from one table: flags, environment, defaults, help. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum opt_type { OPT_STR, OPT_INT, OPT_NUM, OPT_SIZE, OPT_SECONDS, OPT_BOOL, OPT_ENUM };

/* A size is as size.h has it. Seconds are a duration, and kept in milliseconds. */
struct opt {
	const char *flag; /* without "--"; NULL: environment only */
	const char *env;  /* NULL: flag only */
	enum opt_type type;
	size_t at; /* const char *, int64_t (OPT_INT, SIZE, SECONDS), double (NUM), bool; ENUM: int64_t */
	const char *def; /* as text; NULL: none */
	const char *arg; /* what the value is, in the help; an enum's choices: "text|json" */
	const char *help;
	int64_t min, max; /* of a number; both 0: none */
};

struct opt_table {
	const char *usage, *about;
	const struct opt *opts;
	size_t count;
};

/* Fills `to` from defaults, then the environment, then argv[1…]. Stops at the first argument that
 * is not an option and returns its index, or -1 with one line in err. --help and --version are
 * the caller's: it looks for them before. Strings are borrowed. */
int opt_parse(const struct opt_table *table, int argc, char **argv, void *to, struct err *err);

#define OPT_DURATION_SYNTAX "seconds, or a number with ms, s, m, h or d, such as 10m or 1h30m"

/* A duration as people write it: 90, 1.5, 250ms, 10m, 1h30m, in milliseconds. -1: it is none. */
int opt_duration(const char *text, int64_t *ret_ms);

/* The defaults alone. */
int opt_defaults(const struct opt_table *table, void *to, struct err *err);

/* true, 1, yes, on; false, 0, no, off. -1: the text is none of these. */
int opt_bool(const char *text, bool *ret);

/* The whole help, on stdout: for a terminal, or as a page of documentation. */
void opt_help(const struct opt_table *table);
void opt_help_markdown(const struct opt_table *table);
