#include "base/opt.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "base/size.h"

int opt_bool(const char *text, bool *ret)
{
	static const char *const yes[] = { "true", "1", "yes", "on" };
	static const char *const no[] = { "false", "0", "no", "off" };
	for (size_t i = 0; i < COUNT(yes); i++)
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*ret = !strcasecmp(text, yes[i]);
			return 0;
		}
	return -1;
}

static int parse_enum(const char *choices, const char *text, int64_t *ret)
{
	size_t len = strlen(text);
	int64_t index = 0;
	for (const char *at = choices; *at; index++) {
		size_t n = strcspn(at, "|");
		if (n == len && !strncmp(at, text, n)) {
			*ret = index;
			return 0;
		}
		at += n + (at[n] == '|');
	}
	return -1;
}

static int parse_number(const char *text, int64_t *ret)
{
	char *end;
	errno = 0;
	double value = strtod(text, &end);
	if (end == text || *end || errno || strpbrk(text, "xXnN") || fabs(value) > 0x1p53 ||
	    value != floor(value))
		return -1;
	*ret = llround(value);
	return 0;
}

/* The milliseconds of a unit, which is skipped; 0: there is none. */
static double take_unit(const char **at)
{
	static const struct {
		const char *name;
		double ms;
	} units[] = { { "ms", 1 }, { "s", 1e3 }, { "m", 60e3 }, { "h", 3600e3 }, { "d", 86400e3 } };
	for (size_t i = 0; i < COUNT(units); i++) {
		size_t len = strlen(units[i].name);
		if (!strncmp(*at, units[i].name, len)) {
			*at += len;
			return units[i].ms;
		}
	}
	return 0;
}

int opt_duration(const char *text, int64_t *ret_ms)
{
	double total = 0, before = HUGE_VAL;
	const char *at = text;
	do {
		size_t digits = strspn(at, "0123456789.");
		char *end;
		double value = strtod(at, &end);
		if (!digits || end != at + digits) /* no sign, exponent, "0x" or "inf" */
			return -1;
		bool alone = at == text && !*end;
		at = end;
		double unit = alone ? 1e3 : take_unit(&at);
		if (unit <= 0 || unit >= before) /* 1h30m, not 30m1h */
			return -1;
		before = unit;
		total += value * unit;
	} while (*at);
	if (total > 0x1p53)
		return -1;
	*ret_ms = llround(total);
	return 0;
}

static int parse_fraction(const struct opt *opt, const char *text, double *ret)
{
	char *end;
	double value = strtod(text, &end);
	if (end == text || *end || strpbrk(text, "xXnN") || value < (double)opt->min ||
	    value > (double)opt->max)
		return -1;
	*ret = value;
	return 0;
}

static int parse_whole(const struct opt *opt, const char *text, int64_t *ret)
{
	int result = opt->type == OPT_SIZE      ? size_parse(text, ret)
		     : opt->type == OPT_SECONDS ? opt_duration(text, ret)
						: parse_number(text, ret);
	if (result < 0)
		return -1;
	if ((opt->min || opt->max) && (*ret < opt->min || (opt->max && *ret > opt->max)))
		return -1;
	return 0;
}

static int set(const struct opt *opt, const char *text, void *to)
{
	void *at = (char *)to + opt->at;
	switch (opt->type) {
	case OPT_STR:
		*(const char **)at = text;
		return 0;
	case OPT_BOOL:
		return opt_bool(text, at);
	case OPT_ENUM:
		return parse_enum(opt->arg, text, at);
	case OPT_NUM:
		return parse_fraction(opt, text, at);
	default:
		return parse_whole(opt, text, at);
	}
}

static int bad_value(const struct opt *opt, const char *name, const char *text, struct err *err)
{
	char range[80] = "";
	if (opt->type == OPT_SECONDS && opt->max)
		snprintf(range, sizeof range, " from %g to %g seconds", (double)opt->min / 1000,
			 (double)opt->max / 1000);
	else if (opt->max)
		snprintf(range, sizeof range, " from %lld to %lld", (long long)opt->min,
			 (long long)opt->max);
	return err_set(err, ERR_INVALID, "%s: '%s' is not %s%s", name, text,
		       opt->type == OPT_SECONDS ? "a duration such as 30, 10m or 1h30m,"
		       : opt->arg               ? opt->arg
						: "true or false",
		       range);
}

static const struct opt *find_flag(const struct opt_table *table, const char *name, size_t len)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->opts[i].flag && strlen(table->opts[i].flag) == len &&
		    !strncmp(table->opts[i].flag, name, len))
			return &table->opts[i];
	return NULL;
}

static int take_flag(const struct opt_table *table, int argc, char **argv, int *index, void *to,
		     struct err *err)
{
	const char *arg = argv[*index];
	size_t len = strcspn(arg, "=");
	const struct opt *opt = find_flag(table, arg + 2, len - 2);
	if (!opt)
		return err_set(err, ERR_INVALID, "unknown option '%.*s' (see --help)", (int)len,
			       arg);
	const char *value = arg[len] ? arg + len + 1 : NULL;
	if (!value && opt->type == OPT_BOOL)
		value = "true";
	else if (!value && *index + 1 < argc)
		value = argv[++*index];
	else if (!value)
		return err_set(err, ERR_INVALID, "option '%s' needs a value: %s", arg, opt->arg);
	char name[64];
	snprintf(name, sizeof name, "--%s", opt->flag);
	return set(opt, value, to) < 0 ? bad_value(opt, name, value, err) : 0;
}

int opt_defaults(const struct opt_table *table, void *to, struct err *err)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct opt *opt = &table->opts[i];
		if (opt->def && set(opt, opt->def, to) < 0)
			return bad_value(opt, opt->flag ? opt->flag : opt->env, opt->def, err);
	}
	return 0;
}

int opt_parse(const struct opt_table *table, int argc, char **argv, void *to, struct err *err)
{
	if (opt_defaults(table, to, err) < 0)
		return -1;
	for (size_t i = 0; i < table->count; i++) {
		const struct opt *opt = &table->opts[i];
		const char *env = opt->env ? getenv(opt->env) : NULL;
		if (env && *env && set(opt, env, to) < 0)
			return bad_value(opt, opt->env, env, err);
	}
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (strncmp(argv[i], "--", 2) != 0)
			return i;
		if (take_flag(table, argc, argv, &i, to, err) < 0)
			return -1;
	}
	return argc;
}

static void print_wrapped(const char *text, int indent)
{
	int column = indent;
	for (const char *at = text; *at;) {
		int len = (int)strcspn(at, " ");
		if (column + len >= 100 && column > indent) /* a space follows */
			column = printf("\n%*s", indent, "") - 1;
		column += printf("%.*s ", len, at);
		at += len + (at[len] == ' ');
	}
	putchar('\n');
}

void opt_help(const struct opt_table *table)
{
	printf("Usage: %s\n\n%s\n\nOptions (a flag wins over its environment variable;\na DURATION is " OPT_DURATION_SYNTAX
	       "):\n",
	       table->usage, table->about);
	for (size_t i = 0; i < table->count; i++) {
		const struct opt *opt = &table->opts[i];
		if (opt->flag)
			printf("\n  --%s%s%s", opt->flag, opt->arg ? " " : "",
			       opt->arg ? opt->arg : "");
		else
			printf("\n ");
		if (opt->env)
			printf("%s%s%s", opt->flag ? "  [" : " ", opt->env, opt->flag ? "]" : "=…");
		if (opt->def)
			printf("  (default %s)", opt->def);
		printf("\n      ");
		print_wrapped(opt->help, 6);
	}
	printf("\n  --help\n      Print this and exit.\n");
}

void opt_help_markdown(const struct opt_table *table)
{
	printf("# Configuration\n\n%s A flag wins over its environment variable. A DURATION is " OPT_DURATION_SYNTAX
	       ". This page is what "
	       "`%.*s --help-markdown` prints.\n\n"
	       "| flag | environment | default | meaning |\n|---|---|---|---|\n",
	       table->about, (int)strcspn(table->usage, "[") - 1, table->usage);
	for (size_t i = 0; i < table->count; i++) {
		const struct opt *opt = &table->opts[i];
		printf("| ");
		if (opt->flag)
			printf("`--%s%s", opt->flag, opt->arg ? " " : "");
		for (const char *at = opt->flag && opt->arg ? opt->arg : ""; *at; at++)
			printf(*at == '|' ? "\\|" : "%c", *at);
		printf(opt->flag ? "` | " : "| ");
		printf(opt->env ? "`%s` | " : "| ", opt->env);
		printf(opt->def ? "`%s` | " : "| ", opt->def);
		printf("%s |\n", opt->help);
	}
}
