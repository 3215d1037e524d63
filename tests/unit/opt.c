#include "base/opt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "tap.h"

struct values {
	const char *name, *quiet;
	int64_t count, free, size, wait, level;
	double cores;
	bool on, off;
};
#define AT(member) offsetof(struct values, member)
static const struct opt options[] = {
	{ "name", "T_NAME", OPT_STR, AT(name), NULL, "NAME", "A name." },
	{ NULL, "T_QUIET", OPT_STR, AT(quiet), "def", NULL, "Of the environment only." },
	{ "count", "T_COUNT", OPT_INT, AT(count), "5", "N", "A count.", 1, 100 },
	{ "free", NULL, OPT_INT, AT(free), NULL, "N", "Any number." },
	{ "size", "T_SIZE", OPT_SIZE, AT(size), "64K", "SIZE", "A size.", 1, 1ll << 40 },
	{ "wait", "T_WAIT", OPT_SECONDS, AT(wait), "0.5", "SECONDS", "A time.", 100, 86400000 },
	{ "cores", "T_CORES", OPT_NUM, AT(cores), "0", "CORES", "Cores.", 0, 64 },
	{ "level", "T_LEVEL", OPT_ENUM, AT(level), "warn", "error|warn|info", "A level." },
	{ "on", "T_ON", OPT_BOOL, AT(on), "false", NULL, "A switch." },
	{ "off", "T_OFF", OPT_BOOL, AT(off), "true", NULL, "Another | one." },
};
static const struct opt_table table = { "t [options]", "Tests.", options, COUNT(options) };

enum { ARGS_MAX = 12 };

/* Arguments are separated by '|'. Returns what opt_parse() does. */
static int parse(const char *line, struct values *values, struct err *err)
{
	static char text[1000]; /* the values point into it */
	char *argv[ARGS_MAX + 1] = { (char *)"t" };
	int argc = 1;
	snprintf(text, sizeof text, "%s", line);
	for (char *at = *text ? text : NULL; at && argc < ARGS_MAX; argc++) {
		char *mark = strchr(at, '|');
		if (mark)
			*mark++ = 0;
		argv[argc] = at;
		at = mark;
	}
	*values = (struct values){ 0 };
	return opt_parse(&table, argc, argv, values, err);
}

static void defaults(void)
{
	struct values v;
	CHECK(parse("", &v, NULL) == 1);
	CHECK(!v.name && v.count == 5 && v.free == 0 && v.size == 65536 && v.wait == 500);
	CHECK_STR(v.quiet, "def");
	CHECK(v.level == 1 && !v.on && v.off);
}

static void flags(void)
{
	struct values v;
	CHECK(parse("--name|x|--count=7|--size|2M|--wait=1.25|--level|info|--on|--off=no", &v,
		    NULL) == 11);
	CHECK_STR(v.name, "x");
	CHECK(v.count == 7 && v.size == 2 << 20 && v.wait == 1250 && v.level == 2 && v.on &&
	      !v.off);
	CHECK(parse("--name=a=b", &v, NULL) == 2);
	CHECK_STR(v.name, "a=b");
	CHECK(parse("--name=", &v, NULL) == 2);
	CHECK_STR(v.name, "");
	CHECK(parse("--name|--count", &v, NULL) == 3);
	CHECK_STR(v.name, "--count");
	CHECK(parse("--count=1|--count=2", &v, NULL) == 3 && v.count == 2);
	/* The first argument that is no option ends them. */
	CHECK(parse("--on|rest|--off=no", &v, NULL) == 2 && v.on && v.off);
	CHECK(parse("--on|--|--off=no", &v, NULL) == 3 && v.on && v.off);
	CHECK(parse("-|--on", &v, NULL) == 1 && !v.on);
	CHECK(parse("--on|true", &v, NULL) == 2);
}

static void check_value(const char *line, int64_t count, int64_t size, int64_t wait)
{
	struct values v;
	struct err err = { 0 };
	if (!CHECK(parse(line, &v, &err) > 0 && v.free == count && v.size == size &&
		   v.wait == wait))
		printf("# %s: %lld %lld %lld %s\n", line, (long long)v.free, (long long)v.size,
		       (long long)v.wait, err.msg);
}

static void numbers(void)
{
	check_value("--free=-3", -3, 65536, 500);
	check_value("--free=1e3", 1000, 65536, 500);
	check_value("--free=9007199254740992", 9007199254740992, 65536, 500);
	check_value("--size=1", 0, 1, 500);
	check_value("--size=1k", 0, 1024, 500);
	check_value("--size=0.5M", 0, 524288, 500);
	check_value("--size=3G", 0, 3ll << 30, 500);
	check_value("--size=1024G", 0, 1ll << 40, 500);
	check_value("--size=1.5MiB", 0, 3ll << 19, 500);
	struct values v;
	CHECK(parse("--cores=1.5", &v, NULL) == 2 && v.cores == 1.5);
	check_value("--wait=0.1", 0, 65536, 100);
	check_value("--wait=86400", 0, 65536, 86400000);
	check_value("--wait=.5", 0, 65536, 500);
	check_value("--wait=0.3", 0, 65536, 300);
	check_value("--wait=250ms", 0, 65536, 250);
	check_value("--wait=90s", 0, 65536, 90000);
	check_value("--wait=10m", 0, 65536, 600000);
	check_value("--wait=1h30m", 0, 65536, 5400000);
	check_value("--wait=1.5h", 0, 65536, 5400000);
	check_value("--wait=1d", 0, 65536, 86400000);
	check_value("--wait=1.001", 0, 65536, 1001);
}

static void refused(void)
{
	static const char *const rows[][2] = {
		{ "--none", "unknown option '--none' (see --help)" },
		{ "--none=1", "unknown option '--none' (see --help)" },
		{ "--nam=1", "unknown option '--nam' (see --help)" },
		{ "--=1", "unknown option '--' (see --help)" },
		{ "--t_quiet=1", "unknown option '--t_quiet' (see --help)" },
		{ "--name", "option '--name' needs a value: NAME" },
		{ "--count=0", "--count: '0' is not N from 1 to 100" },
		{ "--count=101", "--count: '101' is not N from 1 to 100" },
		{ "--count=1.5", "--count: '1.5' is not N from 1 to 100" },
		{ "--count=", "--count: '' is not N from 1 to 100" },
		{ "--count=1x", "--count: '1x' is not N from 1 to 100" },
		{ "--count=0x10", "--count: '0x10' is not N from 1 to 100" },
		{ "--count=10K", "--count: '10K' is not N from 1 to 100" },
		{ "--free=1e300", "--free: '1e300' is not N" },
		{ "--free=-1e300", "--free: '-1e300' is not N" },
		{ "--free=1e999", "--free: '1e999' is not N" },
		{ "--free=nan", "--free: 'nan' is not N" },
		{ "--free=inf", "--free: 'inf' is not N" },
		{ "--free=9007199254740994", "--free: '9007199254740994' is not N" },
		{ "--size=2T", "--size: '2T' is not SIZE from 1 to 1099511627776" },
		{ "--size=1KX", "--size: '1KX' is not SIZE from 1 to 1099511627776" },
		{ "--cores=150%", "--cores: '150%' is not CORES from 0 to 64" },
		{ "--cores=65", "--cores: '65' is not CORES from 0 to 64" },
		{ "--cores=-1", "--cores: '-1' is not CORES from 0 to 64" },
		{ "--cores=nan", "--cores: 'nan' is not CORES from 0 to 64" },
		{ "--cores=", "--cores: '' is not CORES from 0 to 64" },
		{ "--size=K", "--size: 'K' is not SIZE from 1 to 1099511627776" },
		{ "--size=0.3", "--size: '0.3' is not SIZE from 1 to 1099511627776" },
		{ "--size=1e30G", "--size: '1e30G' is not SIZE from 1 to 1099511627776" },
		{ "--wait=0.05",
		  "--wait: '0.05' is not a duration such as 30, 10m or 1h30m, from 0.1 to 86400 seconds" },
		{ "--wait=2y",
		  "--wait: '2y' is not a duration such as 30, 10m or 1h30m, from 0.1 to 86400 seconds" },
		{ "--wait=2d",
		  "--wait: '2d' is not a duration such as 30, 10m or 1h30m, from 0.1 to 86400 seconds" },
		{ "--level=debug", "--level: 'debug' is not error|warn|info" },
		{ "--level=", "--level: '' is not error|warn|info" },
		{ "--level=err", "--level: 'err' is not error|warn|info" },
		{ "--on=maybe", "--on: 'maybe' is not true or false" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct values v;
		struct err err = { 0 };
		CHECK(parse(rows[i][0], &v, &err) == -1 && err.code == ERR_INVALID);
		CHECK_STR(err.msg, rows[i][1]);
	}
}

static void booleans(void)
{
	static const char *const yes[] = { "true", "1", "yes", "on", "TRUE", "Yes" };
	static const char *const no[] = { "false", "0", "no", "off", "FALSE", "Off" };
	for (size_t i = 0; i < COUNT(yes); i++) {
		struct values v;
		char line[40];
		snprintf(line, sizeof line, "--on=%s|--off=%s", yes[i], no[i]);
		CHECK(parse(line, &v, NULL) == 3 && v.on && !v.off);
	}
}

static void environment(void)
{
	struct values v;
	struct err err = { 0 };
	setenv("T_NAME", "env", 1);
	setenv("T_QUIET", "env", 1);
	setenv("T_COUNT", "9", 1);
	setenv("T_ON", "yes", 1);
	setenv("T_SIZE", "", 1); /* as good as unset */
	CHECK(parse("--count=3", &v, &err) == 2);
	CHECK_STR(v.name, "env");
	CHECK_STR(v.quiet, "env");
	CHECK(v.count == 3 && v.on && v.size == 65536);
	CHECK(parse("", &v, &err) == 1 && v.count == 9);
	setenv("T_COUNT", "many", 1);
	CHECK(parse("--count=3", &v, &err) == -1);
	CHECK_STR(err.msg, "T_COUNT: 'many' is not N from 1 to 100");
	unsetenv("T_NAME");
	unsetenv("T_QUIET");
	unsetenv("T_COUNT");
	unsetenv("T_ON");
	unsetenv("T_SIZE");
}

/* What a function prints. */
static char *printed(void (*help)(const struct opt_table *), const struct opt_table *of)
{
	char *text = xcalloc(1, 1 << 16);
	FILE *file = tmpfile();
	int before = dup(STDOUT_FILENO);
	if (!file || before < 0)
		abort();
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	help(of);
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
	rewind(file);
	text[fread(text, 1, (1 << 16) - 1, file)] = 0;
	fclose(file);
	return text;
}

static void help(void)
{
	char *text = printed(opt_help, &table);
	CHECK(!strncmp(text, "Usage: t [options]\n\nTests.\n", 27));
	CHECK(strstr(text, "\n  --count N  [T_COUNT]  (default 5)\n      A count. \n") != NULL);
	CHECK(strstr(text, "\n  --free N\n") != NULL);
	CHECK(strstr(text, "\n  T_QUIET=\xe2\x80\xa6  (default def)\n") != NULL);
	CHECK(strstr(text, "\n  --help\n") != NULL);
	free(text);
	text = printed(opt_help_markdown, &table);
	CHECK(strstr(text, "| `--level error\\|warn\\|info` | `T_LEVEL` | `warn` | A level. |\n") !=
	      NULL);
	CHECK(strstr(text, "| | `T_QUIET` | `def` | Of the environment only. |\n") != NULL);
	CHECK(strstr(text, "| `--free N` | | | Any number. |\n") != NULL);
	free(text);
	/* The server's own: nothing is wider than a terminal, and each row is one line of four cells. */
	text = printed(opt_help, &config_table);
	size_t widest = 0;
	for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
		widest = strcspn(at, "\n") > widest ? strcspn(at, "\n") : widest;
	CHECK(widest > 50 && widest <= 104);
	free(text);
}

/* Every default must be what its own row allows. */
static void server_options(void)
{
	static struct config config, other, third; /* their strings live as long as the process */
	struct err err = { 0 };
	char *argv[] = { (char *)"serve", NULL };
	char dir[] = "/tmp/opt-XXXXXX";
	if (!mkdtemp(dir))
		abort();
	setenv("WORKSPACE", dir, 1);
	if (!CHECK(config_load(&config, 1, argv, &err) == 0))
		printf("# %s\n", err.msg);
	CHECK_STR(config.net.listen, "127.0.0.1:8080");
	CHECK_STR(config.workspace, dir);
	CHECK(config.net.max_body == 64 << 20 && config.net.idle_ms == 300000 &&
	      config.log_level == 2);
	setenv("WORKSPACE", "relative", 1);
	CHECK(config_load(&other, 1, argv, &err) == -1);
	CHECK(strstr(err.msg, "'relative' is not an absolute path") != NULL);
	char *extra[] = { (char *)"serve", (char *)"extra", NULL };
	CHECK(config_load(&third, 2, extra, &err) == -1);
	CHECK_STR(err.msg, "unexpected argument 'extra' (see --help)");
	rmdir(dir);
}

int main(void)
{
	defaults();
	flags();
	numbers();
	refused();
	booleans();
	environment();
	help();
	server_options();
	return tap_done();
}
