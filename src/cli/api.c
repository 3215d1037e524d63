/* aio browser, gui, shell, file …: the API of a running sandbox for a shell, each operation a verb. Text on a
 * terminal, JSON elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/own.h"
#include "cli/answer.h"
#include "cli/api_call.h"
#include "cli/api_words.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/endpoint.h"
#include "cli/flags.h"
#include "cli/remote.h"
#include "cli/verbs.h"

enum { ANSWER_MAX = 64 << 20, LINE_MAX_LEN = 16 << 20, PIECE = 65536 };

const struct own_verb own_verbs[] = {
	{ "file", "cp", "SOURCE TARGET", "Copy files and directories to, from or between sandboxes",
	  cmd_copy },
	{ NULL, NULL, NULL, NULL, NULL },
};

/* ---- help ---- */

static const char exit_help[] =
	"Exit status: 0, or what the command or code ended with; 1: the sandbox refused it or\n"
	"failed; 2: wrong usage; 124: the command or code took too long.\n";

static void help_verb(const struct api_verb *verb)
{
	auto_buf struct buf usage = BUF(1000);
	bool explained = false, file = api_gives_file(verb->route);
	verbs_usage(verb, &usage);
	printf("Usage: aio %s%s%s [flags]\n\n%s.\n", verb->name, usage.len ? " " : "",
	       usage.len ? usage.data : "", verb->route->summary);
	if (verb->variant && verb->variant->help)
		printf("%s\n", verb->variant->help);
	if (verb->route->help)
		printf("%s\n", verb->route->help);
	printf("\nThe same as %s %s%s%s.\n", verb->route->method, verb->route->path,
	       verb->variant ? ", action_type " : "", verb->variant ? verb->variant->tag : "");
	if (verb->note->input)
		printf("Standard input gives the argument %s where it is absent or '-'.\n",
		       verb->note->input);
	printf("\nFlags%s:\n", verb->argument_count ? ", also for the arguments" : "");
	for (size_t i = 0; verb->in && i < verb->in->count; i++)
		if (verbs_has(&verb->in->fields[i]))
			flags_print(&verb->in->fields[i], &explained);
	if (file)
		puts("  --output FILE\n      Also -o: where to write it. -: standard output, as where it "
		     "is not a terminal.");
	puts("  --json\n      Print the response as JSON, also on a terminal.\n"
	     "  --plain\n      Print text as on a terminal, also elsewhere.");
	endpoint_help();
	printf("  --help\n      Print this and exit.\n\n%s", exit_help);
}

static const char *summary(const struct api_verb *verb)
{
	return verb->variant && verb->variant->help ? verb->variant->help : verb->route->summary;
}

static bool is_of(const struct api_verb *verb, const char *group)
{
	size_t len = strlen(group);
	return !strncmp(verb->name, group, len) && verb->name[len] == ' ';
}

void api_help(FILE *to, const char *group)
{
	size_t count, width = 0;
	const struct api_verb *verbs = verbs_all(&count);
	for (size_t i = 0; own_verbs[i].name; i++)
		if (!strcmp(own_verbs[i].group, group))
			fprintf(to, "  %s %s  %s\n\n", own_verbs[i].name, own_verbs[i].usage,
				own_verbs[i].about);
	for (int print = 0; print < 2; print++)
		for (size_t i = 0; i < count; i++) {
			auto_buf struct buf line = BUF(1000);
			if (!is_of(&verbs[i], group))
				continue;
			buf_printf(&line, "%s ", verbs_own(&verbs[i]));
			verbs_usage(&verbs[i], &line);
			const char *about = summary(&verbs[i]);
			size_t len = strlen(about);
			if (print)
				fprintf(to, "  %-*s  %.*s\n", (int)width, line.data,
					(int)(len - (about[len - 1] == '.')), about);
			else if (line.len > width && line.len <= 40)
				width = line.len;
		}
}

void api_help_all(void)
{
	size_t count;
	const struct api_verb *verbs = verbs_all(&count);
	char name[] = "", flag[] = "--help", *argv[] = { name, flag, NULL };
	for (size_t i = 0; own_verbs[i].name; i++) {
		(void)own_verbs[i].run(2, argv);
		putchar('\n');
	}
	for (size_t i = 0; i < count; i++) {
		help_verb(&verbs[i]);
		putchar('\n');
	}
}

static void help_group(FILE *to, const char *group)
{
	fprintf(to, "Usage: aio %s VERB [arguments] [flags]\n\n", group);
	api_help(to, group);
	fprintf(to,
		"\n'aio %s VERB --help' has the flags of each. On a terminal answers are text, elsewhere\n"
		"JSON; --json and --plain choose.\n",
		group);
}

/* ---- what is answered ---- */

static int write_all(int fd, const char *path, const char *data, size_t len, struct err *err)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "write '%s'", path);
		done += (size_t)n;
	}
	return 0;
}

/* A file that is new, and not whole, goes again. */
static int save(struct client *client, const char *path, struct err *err)
{
	bool out = !strcmp(path, "-"), there = access(path, F_OK) == 0;
	auto_close int file = out ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
				  : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	auto_free char *piece = xmalloc(PIECE);
	bool plain = out && isatty(STDOUT_FILENO);
	ssize_t n = -1;
	if (file < 0)
		return err_set(err, errno, "open '%s'", path);
	while ((n = client_read(client, piece, PIECE, err)) > 0) {
		if (plain)
			ask_make_plain(piece, (size_t)n, true);
		if (write_all(file, path, piece, (size_t)n, err) < 0)
			break;
	}
	if (n != 0 && !out && !there)
		(void)unlink(path);
	return n == 0 ? 0 : -1;
}

/* Server-Sent Events: on a terminal their name and data, elsewhere the data, one a line. */
static void put_event(const struct api_wish *wish, const char *name, const char *data)
{
	auto_free char *line = xasprintf("%s%s%s", wish->plain ? name : "",
					 wish->plain && *name ? "  " : "", data);
	if (isatty(STDOUT_FILENO))
		ask_make_plain(line, strlen(line), false);
	puts(line);
	fflush(stdout);
}

static void take_line(const struct api_wish *wish, struct buf *line, char name[64])
{
	const char *text = line->data ? line->data : "";
	if (!strncmp(text, "event: ", 7))
		snprintf(name, 64, "%s", text + 7);
	else if (!strncmp(text, "data: ", 6) && !line->full)
		put_event(wish, name, text + 6);
	line->len = 0;
	line->full = false;
	if (line->data)
		*line->data = 0;
}

static int follow(const struct api_wish *wish, struct client *client, struct err *err)
{
	auto_buf struct buf line = BUF(LINE_MAX_LEN);
	auto_free char *piece = xmalloc(PIECE);
	char name[64] = "";
	ssize_t n;
	while ((n = client_read(client, piece, PIECE, err)) > 0) {
		const char *at = piece, *end;
		for (; (end = memchr(at, '\n', (size_t)(piece + n - at))); at = end + 1) {
			buf_add(&line, at, (size_t)(end - at));
			take_line(wish, &line, name);
		}
		buf_add(&line, at, (size_t)(piece + n - at));
	}
	return n == 0 ? 0 : -1;
}

static int take_json(const struct api_wish *wish, int status, struct client *client,
		     struct err *err)
{
	size_t len = 0;
	bool good = status >= 200 && status < 300, bare = wish->verb->route->flags & BARE;
	auto_free char *text = client_body(client, ANSWER_MAX, &len, err);
	json_t *parsed = text ? json_parse(text, len, err) : NULL;
	bool failed = !bare && json_is_false(json_object_get(parsed, "success"));
	if (!good || !parsed || failed) {
		if (text && (parsed || !good))
			remote_error(status, parsed, err);
		json_decref(parsed);
		return -1;
	}
	json_t *data = bare ? parsed : json_object_get(parsed, "data");
	int result = answer_status(wish->verb, data);
	if (wish->plain)
		answer_print(wish->verb, parsed, data);
	else
		ask_print(parsed);
	json_decref(parsed);
	return result;
}

static bool is_json(const struct client *client, const struct route *route)
{
	const char *type = http_header(&client->http.head, "content-type");
	return type ? !strncmp(type, "application/json", 16) : !api_gives_file(route);
}

static int take_answer(const struct api_wish *wish, int status, struct client *client,
		       struct err *err)
{
	const char *type = http_header(&client->http.head, "content-type");
	bool good = status >= 200 && status < 300;
	if (good && type && !strncmp(type, "text/event-stream", 17))
		return follow(wish, client, err);
	if (good && api_gives_file(wish->verb->route) && !is_json(client, wish->verb->route))
		return save(client, wish->output ? wish->output : "-", err);
	return take_json(wish, status, client, err);
}

static bool is_text(const struct route *route)
{
	return route->type && !strncmp(route->type, "text/", 5);
}

static int call(const struct api_wish *wish, struct err *err)
{
	auto_endpoint struct endpoint at = { 0 };
	struct client client;
	if (endpoint_find(&wish->where, &at, err) < 0)
		return -1;
	int status = api_call(wish, &at, &client, err);
	int result = status < 0 ? -1 : take_answer(wish, status, &client, err);
	client_close(&client);
	return result;
}

/* ---- commands ---- */

static int check(const struct api_wish *wish, struct err *err)
{
	const struct route *route = wish->verb->route;
	bool terminal = isatty(STDOUT_FILENO) && (!wish->output || !strcmp(wish->output, "-"));
	if (wish->json && wish->plain)
		return err_set(err, ERR_INVALID, "--json and --plain: only one of them");
	if (wish->where.box && wish->where.url)
		return err_set(err, ERR_INVALID, "--box and --api-url: only one of them");
	if (api_gives_file(route) && !is_text(route) && terminal)
		return err_set(err, ERR_INVALID,
			       "%s is not for a terminal: name a file with -o, or pass it on",
			       route->type);
	return 0;
}

/* A message that begins with a field begins with its flag then. */
static void name_flag(const struct api_verb *verb, struct err *err)
{
	size_t len = strspn(err->msg, "abcdefghijklmnopqrstuvwxyz0123456789_");
	for (size_t i = 0; verb->in && i < verb->in->count; i++) {
		const char *name = verb->in->fields[i].name;
		if (strlen(name) != len || memcmp(name, err->msg, len) != 0 ||
		    strncmp(err->msg + len, ": ", 2) != 0)
			continue;
		auto_free char *rest = xstrdup(err->msg + len);
		auto_free char *flag = xstrdup(name);
		for (char *c = flag; *c; c++)
			*c = *c == '_' ? '-' : *c;
		(void)err_set(err, err->code, "--%s%s", flag, rest);
		return;
	}
}

static int run(const struct api_verb *verb, int argc, char **argv)
{
	struct api_wish wish = { .verb = verb, .fields = json_object() };
	struct err err = { 0 };
	int status = 2;
	int result = api_words(&wish, argc, argv, &err);
	if (result == 0 && wish.help) {
		help_verb(verb);
		json_decref(wish.fields);
		return 0;
	}
	if (result == 0)
		result = check(&wish, &err);
	wish.plain |= !wish.json && isatty(STDOUT_FILENO);
	if (result == 0) {
		result = call(&wish, &err);
		status = result < 0 ? 1 : result;
	}
	fflush(stdout);
	ask_make_plain(err.msg, strlen(err.msg), false);
	if (result < 0)
		name_flag(verb, &err);
	if (result < 0)
		fprintf(stderr, "aio %s: %s\n", verb->name, err.msg);
	json_decref(wish.fields);
	return status;
}

/* The verb that was perhaps meant. */
static const char *nearest(const char *group, int argc, char **argv)
{
	size_t count, best = NEAREST_FAR;
	const struct api_verb *verbs = verbs_all(&count), *found = NULL;
	for (size_t i = count; i-- > 0;) { /* of two that are as near, the longer one */
		const char *own = verbs_own(&verbs[i]);
		auto_buf struct buf said = BUF(200);
		if (!is_of(&verbs[i], group))
			continue;
		int words = 1;
		for (const char *c = own; *c; c++)
			words += *c == ' ';
		for (int k = 0; k < words && k < argc; k++)
			buf_printf(&said, "%s%.60s", k ? " " : "", argv[k]);
		if (said.data && nearest_better(said.data, own, &best))
			found = &verbs[i];
	}
	return found ? verbs_own(found) : NULL;
}

int cmd_api(int argc, char **argv)
{
	int words;
	for (size_t i = 0; argc > 1 && own_verbs[i].name; i++)
		if (!strcmp(own_verbs[i].group, argv[0]) && !strcmp(own_verbs[i].name, argv[1]))
			return own_verbs[i].run(argc - 1, argv + 1);
	const struct api_verb *verb = verbs_find(argc, argv, &words);
	if (verb)
		return run(verb, argc - words, argv + words);
	bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
	if (asked || argc < 2) {
		help_group(asked ? stdout : stderr, argv[0]);
		return asked ? 0 : 2;
	}
	const char *meant = nearest(argv[0], argc - 1, argv + 1);
	fprintf(stderr, "aio %s: unknown verb '%s'%s%s%s (see 'aio %s --help')\n", argv[0], argv[1],
		meant ? ": did you mean '" : "", meant ? meant : "", meant ? "'?" : "", argv[0]);
	return 2;
}
