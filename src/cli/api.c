/* aio browser, gui, sandbox, skills and mcp list: the API of a running sandbox for a shell. A table of them,
 * and one function for all. Text on a terminal, JSON elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/own.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "net/client.h"

enum { ANSWER_MAX = 64 << 20, COLUMNS = 3 };

static const struct api_verb {
	const char *group, *name, *usage, *about, *method, *path;
	const char *body;             /* the field that the argument becomes; NULL: it takes none */
	bool picture;                 /* the response is one: it goes to --output */
	const char *list;             /* in the response or its data: a table of it */
	const char *columns[COLUMNS]; /* fields of its items */
} verbs[] = {
	{ "browser", "navigate", "URL",
	  "Opens a page in the active tab, and waits until it is loaded.", "POST",
	  "/v1/browser/page/navigate", .body = "url" },
	{ "browser", "screenshot", "-o FILE", "Takes a picture of the page in the active tab.",
	  "GET", "/v1/browser/page/screenshot", .picture = true },
	{ "gui", "screenshot", "-o FILE", "Takes a picture of the whole desktop.", "GET",
	  "/v1/browser/screenshot", .picture = true },
	{ "sandbox", "info", "", "Describes the sandbox: system, programs, network.", "GET",
	  "/v1/sandbox" },
	{ "skills", "list", "", "Lists the registered skills.", "GET", "/v1/skills/metadatas",
	  .list = "skills", .columns = { "name", "path" } },
	{ "mcp", "list", "", "Lists the MCP servers.", "GET", "/v1/mcp/servers", .list = "servers",
	  .columns = { "name", "status", "kind" } },
};

struct api_options {
	const char *url, *key, *output;
	bool json;
};
static const struct opt opts[] = {
	{ "api-url", "AIO_API_URL", OPT_STR, offsetof(struct api_options, url),
	  "http://localhost:8080", "URL",
	  "The sandbox's address. A box of a host has one that ends with /s/NAME: see 'aio inspect'." },
	{ "api-key", "SANDBOX_API_KEY", OPT_STR, offsetof(struct api_options, key), NULL, "KEY",
	  "The credential of the sandbox, where it needs one." },
	{ "output", NULL, OPT_STR, offsetof(struct api_options, output), NULL, "FILE",
	  "Also -o: where to write a picture. -: standard output." },
	{ "json", NULL, OPT_BOOL, offsetof(struct api_options, json), "false", NULL,
	  "Print the response as JSON, also on a terminal." },
};

/* ---- arguments ---- */

struct api_words {
	char **argv; /* options first: for opt_parse() */
	int argc;
	const char *argument; /* NULL: there is none */
};

static bool takes_value(const char *flag)
{
	return !strchr(flag, '=') && strcmp(flag, "--json") != 0;
}

/* Options may stand before and behind the argument. */
static int sort_words(struct api_words *words, int argc, char **argv, struct err *err)
{
	static char output[] = "--output";
	words->argv[words->argc++] = argv[0];
	for (int i = 1; i < argc; i++) {
		bool option = argv[i][0] == '-' && argv[i][1];
		if (!option && words->argument)
			return err_set(err, ERR_INVALID, "unexpected argument '%s' (see --help)",
				       argv[i]);
		if (!option) {
			words->argument = argv[i];
			continue;
		}
		char *flag = !strcmp(argv[i], "-o") ? output : argv[i];
		words->argv[words->argc++] = flag;
		if (takes_value(flag) && i + 1 < argc)
			words->argv[words->argc++] = argv[++i];
	}
	return 0;
}

static int check_words(const struct api_verb *verb, const struct api_words *words,
		       const struct api_options *options, struct err *err)
{
	bool given = words->argument, wanted = verb->body;
	if (given != wanted || (verb->picture && !options->output))
		return err_set(err, ERR_INVALID, "usage: aio %s %s%s%s", verb->group, verb->name,
			       *verb->usage ? " " : "", verb->usage);
	return 0;
}

/* ---- the call ---- */

struct api_answer {
	int status;
	char *data; /* owned */
	size_t len;
};

static int call(const struct api_verb *verb, const struct api_options *options,
		const char *argument, struct api_answer *ret, struct err *err)
{
	struct client client;
	auto_free char *bearer =
		xasprintf("Authorization: Bearer %s", options->key ? options->key : "");
	const char *prefix = strstr(options->url, "://");
	prefix = prefix ? strchr(prefix + 3, '/') : NULL;
	size_t length = prefix ? strlen(prefix) : 0;
	while (length && prefix[length - 1] == '/')
		length--;
	auto_free char *target = xasprintf("%.*s%s", (int)length, prefix ? prefix : "", verb->path);
	auto_free char *origin = prefix ? xstrndup(options->url, (size_t)(prefix - options->url))
					: xstrdup(options->url);
	json_t *body = verb->body ? json_pack("{s:s}", verb->body, argument) : NULL;
	auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	const char *headers[] = { options->key ? bearer : NULL, NULL };
	const struct client_request request = { verb->method, target, headers,
						NULL,         text,   text ? strlen(text) : 0 };
	json_decref(body);
	if (client_open(&client, origin, NULL, err) < 0)
		return -1;
	ret->status = client_ask(&client, &request, err);
	ret->data = ret->status < 0 ? NULL : client_body(&client, ANSWER_MAX, &ret->len, err);
	client_close(&client);
	return ret->data ? 0 : -1;
}

/* ---- what is printed ---- */

static json_t *disarmed(json_t *string)
{
	auto_free char *text = xstrdup(json_string_value(string));
	ask_make_plain(text, strlen(text), true);
	return json_string(text);
}

static void disarm_all(json_t *json)
{
	const char *key;
	json_t *value;
	void *next;
	size_t i;
	json_array_foreach(json, i, value) {
		if (json_is_string(value))
			json_array_set_new(json, i, disarmed(value));
		else
			disarm_all(value);
	}
	json_object_foreach_safe(json, next, key, value) {
		if (json_is_string(value))
			json_object_set_new(json, key, disarmed(value));
		else
			disarm_all(value);
	}
}

static int write_picture(const char *path, const struct api_answer *answer, struct err *err)
{
	if (!strcmp(path, "-") && isatty(STDOUT_FILENO))
		return err_set(err, ERR_INVALID,
			       "a picture is not for a terminal: name a file, or pass it on");
	auto_close int file = strcmp(path, "-") != 0
				      ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
				      : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (file < 0)
		return err_set(err, errno, "open '%s'", path);
	for (size_t done = 0; done < answer->len;) {
		ssize_t n = write(file, answer->data + done, answer->len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "write '%s'", path);
		done += (size_t)n;
	}
	return 0;
}

static void print_table(const struct api_verb *verb, const json_t *list)
{
	size_t columns = 0, i;
	json_t *item;
	while (columns < COLUMNS && verb->columns[columns])
		columns++;
	struct table *table = table_new(verb->columns, columns);
	json_array_foreach(list, i, item) {
		const char *cells[COLUMNS] = { NULL };
		for (size_t c = 0; c < columns; c++)
			cells[c] = ask_text(item, verb->columns[c]);
		table_row(table, cells);
	}
	table_print(table);
	table_free(table);
}

static void print_values(json_t *data)
{
	const char *key;
	json_t *value;
	json_object_foreach(data, key, value) {
		auto_free char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		auto_free char *line =
			xasprintf("%-14s %s", key,
				  json_is_string(value) ? json_string_value(value) : dump);
		ask_make_plain(line, strlen(line), true); /* names of members, too */
		puts(line);
	}
}

static void print_text(const struct api_verb *verb, json_t *answer)
{
	json_t *data = json_object_get(answer, "data");
	json_t *list = verb->list ? json_object_get(answer, verb->list) : NULL;
	if (verb->list && !list)
		list = json_object_get(data, verb->list);
	if (list)
		print_table(verb, list);
	else if (json_is_string(data))
		puts(json_string_value(data));
	else if (json_is_object(data))
		print_values(data);
	else
		puts(ask_text(answer, "message") ? ask_text(answer, "message") : "done");
}

static int print(const struct api_verb *verb, const struct api_options *options,
		 const struct api_answer *answer, struct err *err)
{
	bool good = answer->status >= 200 && answer->status < 300;
	if (good && verb->picture)
		return write_picture(options->output, answer, err);
	json_t *parsed = json_parse(answer->data, answer->len, err);
	if (!good || !parsed || json_is_false(json_object_get(parsed, "success"))) {
		if (parsed || !good)
			remote_error(answer->status, parsed, err);
		json_decref(parsed);
		return -1;
	}
	if (options->json || !isatty(STDOUT_FILENO))
		ask_print(parsed);
	else {
		disarm_all(parsed);
		print_text(verb, parsed);
	}
	json_decref(parsed);
	return 0;
}

/* ---- commands ---- */

static int run(const struct api_verb *verb, int argc, char **argv)
{
	struct api_options options = { 0 };
	struct api_answer answer = { 0 };
	struct err err = { 0 };
	char usage[100];
	snprintf(usage, sizeof usage, "aio %s %s %s [options]", verb->group, verb->name,
		 verb->usage);
	const struct opt_table table = { usage, verb->about, opts, COUNT(opts) };
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			opt_help(&table);
			return 0;
		}
	struct api_words words = { .argv = xcalloc((size_t)argc + 1, sizeof *argv) };
	int result = sort_words(&words, argc, argv, &err);
	if (result == 0 && opt_parse(&table, words.argc, words.argv, &options, &err) < 0)
		result = -1;
	if (result == 0)
		result = check_words(verb, &words, &options, &err);
	int status = result < 0 ? 2 : 1;
	if (result == 0)
		result = call(verb, &options, words.argument, &answer, &err);
	if (result == 0)
		result = print(verb, &options, &answer, &err);
	ask_make_plain(err.msg, strlen(err.msg), false);
	if (result < 0)
		fprintf(stderr, "aio %s %s: %s\n", verb->group, verb->name, err.msg);
	free(words.argv);
	free(answer.data);
	return result < 0 ? status : 0;
}

static void help(FILE *to, const char *group)
{
	fprintf(to, "Usage: aio %s COMMAND\n\n", group);
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verbs[i].group, group))
			fprintf(to, "  aio %s %s %s\n      %s\n", group, verbs[i].name,
				verbs[i].usage, verbs[i].about);
	fprintf(to, "\nEach has --help.\n");
}

int cmd_api(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verbs[i].group, argv[0]) && !strcmp(verbs[i].name, name))
			return run(&verbs[i], argc - 1, argv + 1);
	bool asked = !strcmp(name, "--help") || !strcmp(name, "-h");
	if (*name && !asked)
		fprintf(stderr, "aio %s: unknown command '%s'\n", argv[0], name);
	help(asked ? stdout : stderr, argv[0]);
	return asked ? 0 : 2;
}
