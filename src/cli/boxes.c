/* The commands that speak to the host: a table of them, a function each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "host/address.h"
#include "host/host.h"

struct ask {
	struct remote remote;
	int argc; /* what is left of the arguments, names first */
	char **argv;
	json_t *fields;
	struct err err;
};

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t whole(const json_t *object, const char *key)
{
	return (json_int_t)json_number_value(json_object_get(object, key));
}

static void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

static json_t *call_box(struct ask *ask, const char *method, const char *what, json_t *body)
{
	auto_buf struct buf path = BUF(512);
	buf_str(&path, "/v1/sandboxes/");
	url_encode(&path, ask->argv[0]);
	buf_str(&path, what);
	return remote_call(&ask->remote, method, path.data, body, &ask->err);
}

/* ---- for people ---- */

static const char *size_text(double bytes, char *to, size_t room)
{
	static const char units[] = "BKMGTP";
	int unit = 0;
	for (; bytes >= 1024 && units[unit + 1]; unit++)
		bytes /= 1024;
	snprintf(to, room, unit && bytes < 10 ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
	return to;
}

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

static json_t *list_boxes(struct ask *ask)
{
	json_t *page =
		remote_call(&ask->remote, "GET", "/v1/sandboxes?limit=1000", NULL, &ask->err);
	json_t *list = json_incref(json_object_get(page, "sandboxes"));
	json_decref(page);
	return list;
}

static int ls(struct ask *ask)
{
	static const char *const titles[] = {
		"ID", "STATE", "TEMPLATE", "AGE", "EXPIRES IN", "URL"
	};
	json_t *list = list_boxes(ask), *box;
	size_t i;
	if (!list)
		return -1;
	if (ask->remote.json) {
		print_json(list);
	} else {
		struct table *table = table_new(titles, COUNT(titles));
		json_array_foreach(list, i, box) {
			char age[16], left[16];
			const char *template = text(box, "template");
			const char *cells[] = { text(box, "id"),
						text(box, "state"),
						template ? template : "machine",
						ago(text(box, "created_at"), age, sizeof age),
						ago(text(box, "expires_at"), left, sizeof left),
						text(json_object_get(box, "urls"), "api") };
			table_row(table, cells);
		}
		table_print(table);
		table_free(table);
	}
	json_decref(list);
	return 0;
}

static void show_box(const struct ask *ask, const json_t *box)
{
	if (ask->remote.json) {
		print_json(box);
		return;
	}
	const char *token = text(box, "token");
	printf("%s  %s  %s\n", text(box, "id"), text(box, "state"),
	       text(json_object_get(box, "urls"), "api"));
	if (token)
		printf("token %s\nopen %s/terminal?api_key=%s\n", token,
		       text(json_object_get(box, "urls"), "api"), token);
}

static int create(struct ask *ask)
{
	json_t *box = remote_call(&ask->remote, "POST", "/v1/sandboxes", json_incref(ask->fields),
				  &ask->err);
	if (!box)
		return -1;
	show_box(ask, box);
	json_decref(box);
	return 0;
}

/* Those that do one thing to each box that is named. */
static int each(struct ask *ask, const char *method, const char *what)
{
	for (; ask->argc; ask->argc--, ask->argv++) {
		json_t *body = !strcmp(method, "POST") ? json_incref(ask->fields) : NULL;
		json_t *done = call_box(ask, method, what, body);
		if (!done)
			return -1;
		if (ask->remote.json)
			print_json(done);
		else
			puts(ask->argv[0]);
		json_decref(done);
	}
	return 0;
}

static int rm(struct ask *ask)
{
	return each(ask, "DELETE", "");
}

static int pause_boxes(struct ask *ask)
{
	return each(ask, "POST", "/pause");
}

static int resume(struct ask *ask)
{
	return each(ask, "POST", "/resume");
}

static int snapshot(struct ask *ask)
{
	json_t *body = json_pack("{ss}", "name", ask->argv[1]);
	json_t *done = call_box(ask, "POST", "/snapshot", body);
	if (!done)
		return -1;
	if (ask->remote.json)
		print_json(done);
	else
		puts(text(done, "template"));
	json_decref(done);
	return 0;
}

static int fork_box(struct ask *ask)
{
	json_t *done = call_box(ask, "POST", "/fork", json_incref(ask->fields));
	if (!done)
		return -1;
	show_box(ask, done);
	json_decref(done);
	return 0;
}

static int logs(struct ask *ask)
{
	json_t *log = call_box(ask, "GET", "/logs?bytes=1048576", NULL);
	if (!log)
		return -1;
	if (json_is_string(log))
		fwrite(json_string_value(log), 1, json_string_length(log), stdout);
	json_decref(log);
	return 0;
}

static int top(struct ask *ask)
{
	static const char *const titles[] = { "ID",   "STATE", "CPU",      "MEMORY", "PEAK",
					      "PIDS", "DISK",  "RECEIVED", "SENT",   "REQUESTS" };
	json_t *list = list_boxes(ask), *box, *all = json_array();
	size_t i;
	if (!list)
		return -1;
	struct table *table = table_new(titles, COUNT(titles));
	json_array_foreach(list, i, box) {
		char *argv[] = { (char *)text(box, "id") };
		char cpu[32], pids[32], requests[32], sizes[5][16];
		struct ask one = *ask;
		one.argv = argv;
		json_t *m = call_box(&one, "GET", "/metrics", NULL);
		if (!m)
			continue; /* deleted meanwhile */
		static const char *const keys[] = { "memory", "memory_peak", "disk",
						    "network_received", "network_sent" };
		for (size_t n = 0; n < COUNT(keys); n++)
			size_text((double)whole(m, keys[n]), sizes[n], sizeof sizes[n]);
		snprintf(cpu, sizeof cpu, "%.2fs",
			 json_number_value(json_object_get(m, "cpu_seconds")));
		snprintf(pids, sizeof pids, "%lld", (long long)whole(m, "pids"));
		snprintf(requests, sizeof requests, "%lld", (long long)whole(m, "requests"));
		const char *cells[] = { argv[0], text(m, "state"), cpu,      sizes[0], sizes[1],
					pids,    sizes[2],         sizes[3], sizes[4], requests };
		table_row(table, cells);
		json_object_set(m, "id", json_object_get(box, "id"));
		json_array_append_new(all, m);
	}
	if (ask->remote.json)
		print_json(all);
	else
		table_print(table);
	table_free(table);
	json_decref(all);
	json_decref(list);
	return 0;
}

static int exec(struct ask *ask)
{
	return exec_in_box(&ask->remote, ask->argv[0], ask->argc - 1, ask->argv + 1, &ask->err);
}

/* ---- templates ---- */

static int template_ls(struct ask *ask)
{
	static const char *const titles[] = { "NAME", "SOURCE" };
	json_t *list = remote_call(&ask->remote, "GET", "/v1/templates", NULL, &ask->err), *one;
	size_t i;
	if (!list)
		return -1;
	if (ask->remote.json) {
		print_json(list);
	} else {
		struct table *table = table_new(titles, COUNT(titles));
		json_array_foreach(list, i, one) {
			const char *cells[] = { text(one, "name"), text(one, "source") };
			table_row(table, cells);
		}
		table_print(table);
		table_free(table);
	}
	json_decref(list);
	return 0;
}

static int template_import_from(struct ask *ask, const char *name, const char *source)
{
	auto_free char *path = realpath(source, NULL);
	if (!path)
		return err_set(&ask->err, ERR_NOT_FOUND, "there is no '%s'", source);
	json_t *done = remote_call(&ask->remote, "POST", "/v1/templates",
				   json_pack("{ssss}", "name", name, "source", path), &ask->err);
	if (!done)
		return -1;
	if (ask->remote.json)
		print_json(done);
	else
		puts(name);
	json_decref(done);
	return 0;
}

static int template_import(struct ask *ask)
{
	return template_import_from(ask, ask->argv[0], ask->argv[1]);
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
			"a template's name is a letter, then letters, digits and single '-', at most %d",
			BOX_ID_MAX);
	json_array_foreach(list, i, one)
		if (!strcmp(text(one, "name"), name))
			result = err_set(&ask->err, ERR_CONFLICT,
					 "there is a template '%s' already", name);
	json_decref(list);
	return result;
}

static int template_build(struct ask *ask)
{
	auto_free char *archive = NULL;
	int result = check_new(ask, ask->argv[0]);
	if (result == 0)
		result = build_image(ask->argv[1], ask->fields, &archive, &ask->err);
	if (result == 0)
		result = template_import_from(ask, ask->argv[0], archive);
	if (archive) {
		unlink(archive);
		*strrchr(archive, '/') = 0;
		rmdir(archive);
	}
	return result;
}

static int template_rm(struct ask *ask)
{
	for (; ask->argc; ask->argc--, ask->argv++) {
		auto_buf struct buf path = BUF(512);
		buf_str(&path, "/v1/templates/");
		url_encode(&path, ask->argv[0]);
		json_t *done = remote_call(&ask->remote, "DELETE", path.data, NULL, &ask->err);
		if (!done)
			return -1;
		json_decref(done);
		puts(ask->argv[0]);
	}
	return 0;
}

/* ---- the table ---- */

static const struct verb {
	const char *name, *usage, *about;
	int (*run)(struct ask *ask);
	int least, most;             /* names it takes */
	const struct schema *fields; /* further flags */
} verbs[] = {
	{ "ls", "", "Lists the boxes of this machine's host.", ls, 0, 0, NULL },
	{ "create", "[flags]", "Makes a box and prints its id, address and token.", create, 0, 0,
	  &sandboxes_create_schema },
	{ "rm", "BOX…", "Deletes boxes, and all that is in them.", rm, 1, 1000, NULL },
	{ "exec", "BOX [COMMAND…]",
	  "Runs a command in a box, or a shell where none is given. On a terminal it is interactive; the exit "
	  "status is the command's.",
	  exec, 1, 1000, NULL },
	{ "logs", "BOX", "Prints what a box's server wrote.", logs, 1, 1, NULL },
	{ "top", "", "Shows what each box uses.", top, 0, 0, NULL },
	{ "pause", "BOX…", "Pauses boxes: their processes stand still.", pause_boxes, 1, 1000,
	  NULL },
	{ "resume", "BOX…", "Resumes boxes; stopped ones start again on their files.", resume, 1,
	  1000, NULL },
	{ "snapshot", "BOX NAME", "Makes a template of a box's files.", snapshot, 2, 2, NULL },
	{ "fork", "BOX [flags]", "Makes a new box from a box's files.", fork_box, 1, 1,
	  &sandboxes_fork_schema },
	{ "template ls", "", "Lists the templates.", template_ls, 0, 0, NULL },
	{ "template import", "NAME PATH",
	  "Makes a template of an OCI or Docker image (an archive or a directory) or of an archive of a root "
	  "file system.",
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
	if (!strcmp(arg, "--help"))
		return 1;
	if (!strcmp(arg, "--json"))
		ask->remote.json = true;
	else if (!strncmp(arg, "--state=", 8))
		ask->remote.state = arg + 8;
	else if (!strcmp(arg, "--state") && *at + 1 < argc)
		ask->remote.state = argv[++*at];
	else
		return err_set(&ask->err, ERR_INVALID, "unknown option '%s' (see --help)", arg);
	++*at;
	return 0;
}

/* Flags before, between and behind the names; behind the box of exec, all is the command. */
static int parse(struct ask *ask, const struct verb *verb, int argc, char **argv)
{
	for (int at = 0; at < argc;) {
		if (verb->run == exec && ask->argc) {
			ask->argv[ask->argc++] = argv[at++];
			continue;
		}
		if (strncmp(argv[at], "--", 2) != 0) {
			ask->argv[ask->argc++] = argv[at++];
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
		return err_set(&ask->err, ERR_INVALID, "usage: aio %s %s", verb->name, verb->usage);
	return 0;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	const char *state = getenv("AIO_STATE");
	struct ask ask = { .remote = { .state = state && *state ? state : "/var/lib/aiobox" },
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
	if (result < 0)
		fprintf(stderr, "aio %s: %s\n", verb->name, ask.err.msg);
	json_decref(ask.fields);
	free(names);
	return status;
}

int cmd_box(int argc, char **argv)
{
	char name[64];
	bool two = !strcmp(argv[0], "template");
	snprintf(name, sizeof name, "%s%s%s", argv[0], two ? " " : "",
		 two && argc > 1 ? argv[1] : "");
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return run(&verbs[i], argc - 1 - two, argv + 1 + two);
	for (size_t i = 0; two && i < COUNT(verbs); i++)
		if (!strncmp(verbs[i].name, "template ", 9))
			printf("aio %s %s\n  %s\n", verbs[i].name, verbs[i].usage, verbs[i].about);
	return argc > 1 && !strcmp(argv[1], "--help") ? 0 : 2;
}
