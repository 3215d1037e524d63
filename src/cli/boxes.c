/* The commands that speak to the host: a table of them, a function each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/url.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/inspect.h"
#include "cli/observe.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "host/address.h"
#include "host/host.h"

static json_int_t whole(const json_t *object, const char *key)
{
	return (json_int_t)json_number_value(json_object_get(object, key));
}

/* ---- for people ---- */

static const char *ago(const char *when, char *to, size_t room)
{
	struct tm t = { 0 };
	if (!when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &t))
		return "-";
	double s = difftime(time(NULL), timegm(&t));
	if (s < 0)
		s = -s;
	snprintf(to, room,
		 s < 120      ? "%.0fs"
		 : s < 7200   ? "%.0fm"
		 : s < 172800 ? "%.0fh"
			      : "%.0fd",
		 s < 120      ? s
		 : s < 7200   ? s / 60
		 : s < 172800 ? s / 3600
			      : s / 86400);
	return to;
}

/* ---- the commands ---- */

enum { CELL = 32, CELLS = 8 };

/* A list as it is, or a table with a row for each of its items. The list is given up. */
static int show_list(const struct ask *ask, json_t *list, const char *const *titles, size_t columns,
		     void (*row)(const json_t *one, const char **cells, char (*room)[CELL]))
{
	json_t *one;
	size_t i;
	if (!list)
		return -1;
	if (ask->remote.json) {
		ask_print(list);
		json_decref(list);
		return 0;
	}
	struct table *table = table_new(titles, columns);
	json_array_foreach(list, i, one) {
		const char *cells[CELLS];
		char room[CELLS][CELL];
		row(one, cells, room);
		table_row(table, cells);
	}
	table_print(table);
	table_free(table);
	json_decref(list);
	return 0;
}

static void ls_row(const json_t *box, const char **cells, char (*room)[CELL])
{
	const char *template = ask_text(box, "template");
	*cells++ = ask_text(box, "id");
	*cells++ = ask_text(box, "state");
	*cells++ = template ? template : "machine";
	*cells++ = ago(ask_text(box, "created_at"), room[0], CELL);
	*cells++ = ago(ask_text(box, "expires_at"), room[1], CELL);
	*cells = ask_text(json_object_get(box, "urls"), "api");
}

static void complain(const struct ask *ask)
{
	fprintf(stderr, "aio %s: %s\n", ask->verb, ask->err.msg);
}

/* Those that are named; one that is not there does not keep the others from being listed. */
static json_t *named(struct ask *ask, int *ret_missing)
{
	json_t *list = json_array();
	for (; ask->argc; ask->argc--, ask->argv++) {
		json_t *box = ask_box(ask, "GET", "", NULL);
		if (!box)
			complain(ask);
		*ret_missing |= !box;
		json_object_del(box, "token"); /* as in a list of all */
		json_object_set_new(box, "token", json_null());
		json_array_append_new(list, box);
	}
	return list;
}

static int ls(struct ask *ask)
{
	static const char *const titles[] = {
		"ID", "STATE", "TEMPLATE", "AGE", "EXPIRES IN", "URL"
	};
	int missing = 0;
	json_t *list = ask->argc ? named(ask, &missing) : ask_boxes(ask);
	int result = show_list(ask, list, titles, COUNT(titles), ls_row);
	return result < 0 ? -1 : missing;
}

/* It is what was asked for, and hardly what was meant. */
static void note_closed(const json_t *box)
{
	const json_t *network = json_object_get(box, "network");
	const char *mode = ask_text(network, "mode");
	if (mode && !strcmp(mode, "allow") && !json_array_size(json_object_get(network, "allow")))
		fprintf(stderr,
			"aio create: box '%s' reaches nothing: '--network allow' opens the names of --allow, "
			"and there are none\n",
			ask_text(box, "id"));
}

static int create(struct ask *ask)
{
	if (ask->argc && json_object_get(ask->fields, "name"))
		return err_set(&ask->err, ERR_INVALID, "the name is given twice: NAME and --name");
	if (ask->argc)
		json_object_set_new(ask->fields, "name", json_string(ask->argv[0]));
	json_t *box = remote_call(&ask->remote, "POST", "/v1/sandboxes", json_incref(ask->fields),
				  &ask->err);
	if (!box)
		return -1;
	inspect_made(ask, box);
	note_closed(box);
	json_decref(box);
	return 0;
}

/* Those that do one thing to each that is named: one that fails does not keep the others from it. */
static int each_at(struct ask *ask, const char *method, const char *place, const char *what)
{
	int result = 0;
	for (; ask->argc; ask->argc--, ask->argv++) {
		auto_buf struct buf path = BUF(512);
		buf_str(&path, place);
		url_encode(&path, ask->argv[0]);
		buf_str(&path, what);
		json_t *body = !strcmp(method, "POST") ? json_incref(ask->fields) : NULL;
		json_t *done = remote_call(&ask->remote, method, path.data, body, &ask->err);
		if (!done) {
			complain(ask);
			result = 1;
		} else if (ask->remote.json) {
			if (json_is_null(done)) /* there is no more to say */
				done = json_pack("{ss}", "deleted", ask->argv[0]);
			ask_print(done);
		} else {
			puts(ask->argv[0]);
		}
		json_decref(done);
	}
	return result;
}

static int each(struct ask *ask, const char *method, const char *what)
{
	return each_at(ask, method, "/v1/sandboxes/", what);
}

/* When the box 'default' was made; NULL: there is none. free() it. */
static char *default_made(const struct ask *ask)
{
	struct err ignored;
	json_t *box = remote_call(&ask->remote, "GET", "/v1/sandboxes/default", NULL, &ignored);
	const char *made = ask_text(box, "created_at");
	char *copy = made ? xstrdup(made) : NULL;
	json_decref(box);
	return copy;
}

/* Requests that name no box go to 'default': whoever deletes it should know what they meet now. */
static int rm(struct ask *ask)
{
	bool named = false;
	for (int i = 0; i < ask->argc; i++)
		named |= !strcmp(ask->argv[i], "default");
	auto_free char *before = named ? default_made(ask) : NULL;
	int result = each(ask, "DELETE", "");
	auto_free char *after = before ? default_made(ask) : NULL;
	if (after && strcmp(before, after) != 0)
		fprintf(stderr,
			"aio rm: 'default' is gone with its files; requests that name no box go to a "
			"new, empty one, made by the host because of its options\n");
	else if (before && !after)
		fprintf(stderr,
			"aio rm: 'default' is gone; requests that name no box are answered 404 until "
			"'aio create --name default'\n");
	return result;
}

static int pause_boxes(struct ask *ask)
{
	return each(ask, "POST", "/pause");
}

static int resume(struct ask *ask)
{
	return each(ask, "POST", "/resume");
}

static int set_timeout(struct ask *ask)
{
	int64_t ms = 0;
	if (strcmp(ask->argv[1], "never") != 0 && opt_duration(ask->argv[1], &ms) < 0)
		return err_set(&ask->err, ERR_INVALID,
			       "'%s' is not a duration: never, or " OPT_DURATION_SYNTAX,
			       ask->argv[1]);
	json_t *body = json_pack("{sf}", "timeout", (double)ms / 1000);
	json_t *box = ask_box(ask, "POST", "/timeout", body);
	if (!box)
		return -1;
	const char *expires = ask_text(box, "expires_at");
	if (ask->remote.json)
		ask_print(box);
	else
		printf("%s  %s%s\n", ask->argv[0], expires ? "is deleted at " : "is never deleted",
		       expires ? expires : "");
	json_decref(box);
	return 0;
}

static int snapshot(struct ask *ask)
{
	json_object_set_new(ask->fields, "name", json_string(ask->argv[1]));
	json_t *done = ask_box(ask, "POST", "/snapshot", json_incref(ask->fields));
	if (!done)
		return -1;
	if (ask->remote.json)
		ask_print(done);
	else
		puts(ask_text(done, "template"));
	json_decref(done);
	return 0;
}

static int fork_box(struct ask *ask)
{
	json_t *done = ask_box(ask, "POST", "/fork", json_incref(ask->fields));
	if (!done)
		return -1;
	inspect_made(ask, done);
	json_decref(done);
	return 0;
}

static int exec(struct ask *ask)
{
	return exec_in_box(&ask->remote, ask->fields, ask->argv[0], ask->argc - 1, ask->argv + 1,
			   &ask->err);
}

/* ---- templates ---- */

static void template_row(const json_t *one, const char **cells, char (*room)[CELL])
{
	time_t made = (time_t)(whole(one, "created_ms") / 1000);
	struct tm when;
	*cells++ = ask_text(one, "name");
	strftime(*room, CELL, "%Y-%m-%d %H:%M", localtime_r(&made, &when));
	*cells++ = made ? *room : NULL;
	*cells = ask_text(one, "source");
}

static int template_ls(struct ask *ask)
{
	static const char *const titles[] = { "NAME", "CREATED", "SOURCE" };
	json_t *list = remote_call(&ask->remote, "GET", "/v1/templates", NULL, &ask->err);
	return show_list(ask, list, titles, COUNT(titles), template_row);
}

static int template_import_from(struct ask *ask, const char *name, const char *source,
				const char *origin)
{
	auto_free char *path = realpath(source, NULL);
	if (!path)
		return err_set(&ask->err, ERR_NOT_FOUND, "there is no '%s'", source);
	json_t *done = upload_template(&ask->remote, name, path, origin ? origin : path, &ask->err);
	if (!done)
		return -1;
	if (ask->remote.json)
		ask_print(done);
	else
		puts(name);
	json_decref(done);
	return 0;
}

/* Found out before the long work, not after it. */
static int check_new(struct ask *ask, const char *name)
{
	json_t *list = remote_call(&ask->remote, "GET", "/v1/templates", NULL, &ask->err), *one;
	size_t i;
	int result = list ? 0 : -1;
	if (!address_is_id(name))
		result = err_set(
			&ask->err, ERR_INVALID,
			"a template's name is a lower-case letter, then lower-case letters, digits and single '-', at most %d",
			BOX_ID_MAX);
	json_array_foreach(list, i, one)
		if (!strcmp(ask_text(one, "name"), name))
			result = err_set(&ask->err, ERR_CONFLICT,
					 "there is a template '%s' already", name);
	json_decref(list);
	return result;
}

static int template_import(struct ask *ask)
{
	return check_new(ask, ask->argv[0]) < 0
		       ? -1
		       : template_import_from(ask, ask->argv[0], ask->argv[1], NULL);
}

static int template_build(struct ask *ask)
{
	auto_free char *archive = NULL;
	int result = check_new(ask, ask->argv[0]);
	if (result == 0)
		result = build_image(ask->argv[1], ask->fields, &archive, &ask->err);
	auto_free char *dir = realpath(ask->argv[1], NULL);
	if (result == 0)
		result = template_import_from(ask, ask->argv[0], archive, dir);
	if (archive) {
		unlink(archive);
		*strrchr(archive, '/') = 0;
		rmdir(archive);
	}
	return result;
}

static int template_rm(struct ask *ask)
{
	return each_at(ask, "DELETE", "/v1/templates/", "");
}

/* ---- the table ---- */

static const struct verb {
	const char *name, *usage, *about;
	int (*run)(struct ask *ask);
	int least, most;             /* names it takes */
	const struct schema *fields; /* further flags */
} verbs[] = {
	{ "ls", "[BOX…]", "Lists the boxes of this machine's host, or those that are named.", ls, 0,
	  1000, NULL },
	{ "create", "[NAME] [flags]",
	  "Makes a box and prints its id, its address for browsers, its token, its address for SDKs, which "
	  "needs no name to resolve, and its terminal.",
	  create, 0, 1, &sandboxes_create_schema },
	{ "inspect", "BOX",
	  "Shows all of a box: state, addresses, token, times, limits, network, labels. As JSON where "
	  "standard output is not a terminal.",
	  inspect_box, 1, 1, NULL },
	{ "timeout", "BOX DURATION",
	  "Has a box deleted after this time from now, or never. A duration is " OPT_DURATION_SYNTAX
	  ".",
	  set_timeout, 2, 2, NULL },
	{ "rm", "BOX…",
	  "Deletes boxes, and all that is in them. In the place of 'default', which requests that name no box "
	  "go to, the host makes a new, empty one.",
	  rm, 1, 1000, NULL },
	{ "exec", "[flags] BOX [COMMAND…]",
	  "Runs a command in a box, or a shell where none is given. One word is a line of shell, several are "
	  "a program and its arguments. On a terminal it is interactive; else standard input, output and error "
	  "are passed on as they are. The exit status is the command's.",
	  exec, 1, 1000, &exec_schema },
	{ "logs", "BOX [flags]", "Prints what a box's server wrote.", observe_logs, 1, 1,
	  &observe_logs_schema },
	{ "events", "[BOX] [flags]",
	  "Prints what happened to a box, or to all of them: created, started, exec, denied, oom, paused, "
	  "resumed, exited, deleted … With --inside, what happened in a box. With --json and --follow it is one "
	  "object a line.",
	  observe_events, 0, 1, &observe_events_schema },
	{ "top", "[flags]", "Shows what each box uses.", observe_top, 0, 0, &observe_top_schema },
	{ "pause", "BOX…", "Pauses boxes: their processes stand still.", pause_boxes, 1, 1000,
	  NULL },
	{ "resume", "BOX…", "Resumes boxes; stopped ones start again on their files.", resume, 1,
	  1000, NULL },
	{ "snapshot", "BOX NAME [flags]", "Makes a template of a box's files.", snapshot, 2, 2,
	  &sandboxes_snapshot_schema },
	{ "fork", "BOX [flags]", "Makes a new box from a box's files.", fork_box, 1, 1,
	  &sandboxes_fork_schema },
	{ "template ls", "", "Lists the templates.", template_ls, 0, 0, NULL },
	{ "template import", "NAME PATH",
	  "Makes a template of an OCI or Docker image (an archive or a directory) or of an archive of a root "
	  "file system. It must have /bin/bash.",
	  template_import, 2, 2, NULL },
	{ "template build", "NAME DIR [flags]",
	  "Makes a template from the Dockerfile in a directory, with buildah, podman or docker, whose "
	  "progress is shown on standard error.",
	  template_build, 2, 2, &build_schema },
	{ "template rm", "NAME…", "Removes templates that no box uses.", template_rm, 1, 1000,
	  NULL },
};

static void help(const struct verb *verb)
{
	printf("Usage: aio %s %s\n\n%s\n\nFlags:\n", verb->name, verb->usage, verb->about);
	if (verb->fields)
		flags_help(verb->fields);
	printf("  --json\n      Print the answer as JSON.\n"
	       "  --state DIR\n      State directory of the host. AIO_STATE; default /var/lib/aiobox.\n"
	       "  --help\n      Print this and exit.\n\n"
	       "The host is found through its state directory, or through AIO_URL and AIO_HOST_TOKEN.\n");
}

/* The flags all commands have; 1 for --help. */
static int take_common(struct ask *ask, int argc, char **argv, int *at)
{
	const char *arg = argv[*at];
	if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
		return 1;
	if (!strcmp(arg, "--json"))
		ask->remote.json = true;
	else if (!strncmp(arg, "--state=", 8))
		ask->remote.state = arg + 8;
	else if (!strcmp(arg, "--state") && *at + 1 < argc)
		ask->remote.state = argv[++*at];
	else if (!strcmp(arg, "--state"))
		return err_set(&ask->err, ERR_INVALID, "--state needs a value: DIR (see --help)");
	else
		return err_set(&ask->err, ERR_INVALID, "unknown option '%s' (see --help)", arg);
	++*at;
	return 0;
}

/* The letters that people know from other programs: -f, and -i, -t, -it of exec. */
static bool take_short(struct ask *ask, const struct verb *verb, const char *arg)
{
	static const struct {
		char letter;
		const char *field;
	} known[] = { { 'f', "follow" }, { 'i', "interactive" }, { 't', "tty" } };
	bool follows = verb->run == observe_logs || verb->run == observe_events;
	const char *letters = follows ? "f" : verb->run == exec ? "it" : "";
	if (!arg[1] || strspn(arg + 1, letters) != strlen(arg + 1))
		return false;
	for (size_t i = 0; i < COUNT(known); i++)
		if (strchr(arg + 1, known[i].letter))
			json_object_set_new(ask->fields, known[i].field, json_true());
	return true;
}

/* Flags before, between and behind the names; behind the box of exec, all is the command. */
static int parse(struct ask *ask, const struct verb *verb, int argc, char **argv)
{
	for (int at = 0; at < argc;) {
		if (verb->run == exec && ask->argc) {
			ask->argv[ask->argc++] = argv[at++];
			continue;
		}
		if (argv[at][0] != '-' || !argv[at][1]) {
			ask->argv[ask->argc++] = argv[at++];
			continue;
		}
		if (take_short(ask, verb, argv[at])) {
			at++;
			continue;
		}
		int before = at;
		if (verb->fields &&
		    flags_parse(verb->fields, argc, argv, &at, ask->fields, &ask->err) < 0)
			return -1;
		int got = at == before ? take_common(ask, argc, argv, &at) : 0;
		if (got)
			return got;
	}
	if (ask->argc < verb->least || ask->argc > verb->most)
		return err_set(&ask->err, ERR_INVALID, "usage: aio %s%s%s", verb->name,
			       *verb->usage ? " " : "", verb->usage);
	return 0;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct ask ask = { .verb = verb->name,
			   .remote = { .state = remote_state() },
			   .argv = xcalloc((size_t)argc + 1, sizeof(char *)),
			   .fields = json_object() };
	char **names = ask.argv;
	int result = parse(&ask, verb, argc, argv);
	int status = 2;
	if (result == 1) {
		help(verb);
		status = 0;
	} else if (result == 0) {
		result = remote_find(&ask.remote, &ask.err);
		if (result == 0)
			result = verb->run(&ask);
		status = result < 0 ? 1 : result;
	}
	if (result < 0 && verb->fields)
		flags_name(verb->fields, &ask.err);
	if (result < 0)
		complain(&ask);
	json_decref(ask.fields);
	free(names);
	return status;
}

static void help_templates(FILE *to)
{
	fprintf(to, "Usage: aio template COMMAND\n\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strncmp(verbs[i].name, "template ", 9))
			fprintf(to, "  aio %s %s\n      %s\n", verbs[i].name, verbs[i].usage,
				verbs[i].about);
	fprintf(to, "\nEach has --help.\n");
}

int cmd_box(int argc, char **argv)
{
	char name[64];
	bool two = !strcmp(argv[0], "template");
	const char *second = two && argc > 1 ? argv[1] : "";
	snprintf(name, sizeof name, "%s%s%s", argv[0], two ? " " : "", second);
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return run(&verbs[i], argc - 1 - two, argv + 1 + two);
	bool asked = !strcmp(second, "--help") || !strcmp(second, "-h");
	if (*second && !asked)
		fprintf(stderr, "aio template: unknown command '%s'\n", second);
	help_templates(asked ? stdout : stderr);
	return asked ? 0 : 2;
}
