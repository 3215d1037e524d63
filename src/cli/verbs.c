#include "cli/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/routes.h"
#include "base/own.h"

enum { VERBS_MAX = 512 };

const struct verb_group verb_groups[] = {
	{ "browser", "pages, tabs, forms, network, pictures: a sandbox's browser" },
	{ "gui", "mouse, keyboard and pictures: a sandbox's desktop" },
	{ "shell", "commands in a sandbox's shells, which keep their state" },
	{ "bash", "commands in a sandbox, with their output and errors apart" },
	{ "file", "read, write, edit, search and cp: a sandbox's files" },
	{ "code", "run code of any language in a sandbox" },
	{ "jupyter", "run code in a sandbox's Jupyter kernels" },
	{ "nodejs", "run JavaScript and TypeScript in a sandbox" },
	{ "skills", "a sandbox's skills" },
	{ "mcp",
	  "be an MCP server on standard input and output; list, tools, call: those of a sandbox" },
	{ "sandbox", "what a sandbox is and has, and what happened in it" },
	{ NULL, NULL },
};

/* Where a path belongs: the words that stand for its beginning. The first row that fits counts. */
static const struct {
	const char *path, *words;
} places[] = {
	{ "/v1/browser/page/", "browser" },
	{ "/v1/browser/actions", "gui" },
	{ "/v1/display/", "gui" },
	{ "/v1/util/", "file" },
	{ "/v1/proxy", "sandbox proxy" },
	{ "/api/v1/contexts", "code contexts" },
	{ "/v1/", "" },
	{ "/", "sandbox" },
};

static const struct verb_note notes[] = {
	/* clang-format off */
	{ "GET /openapi.json", "" }, /* 'aio openapi' prints it */
	{ "GET /v1/openapi.json", "" },
	{ "GET /llms.txt", "sandbox manual" },
	{ "POST /tickets", "sandbox ticket" },
	{ "GET /v1/sandbox/events", .columns = "at type data" },
	{ "POST /v1/shell/exec", .show = "output" },
	{ "POST /v1/shell/view", .show = "output" },
	{ "POST /v1/bash/exec", .show = "stdout" },
	{ "POST /v1/bash/output", .show = "stdout" },
	{ "POST /v1/file/read", .show = "content" },
	{ "POST /v1/file/write", .input = "content" },
	{ "POST /v1/file/list", .show = "files", .columns = "modified_time permissions size path" },
	{ "POST /v1/file/str_replace_editor", "file edit", .show = "output" },
	{ "POST /v1/file/find", .show = "files" },
	{ "POST /v1/file/glob", .show = "files", .columns = "modified size path" },
	{ "POST /v1/file/grep", .show = "matches", .columns = "file line_number line_content" },
	{ "POST /v1/file/search", .show = "matches" },
	{ "POST /v1/file/watch", "file watch start" },
	{ "DELETE /v1/file/watch/{watcher_id}", "file watch stop" },
	{ "POST /v1/util/convert_to_markdown", "file markdown" },
	{ "POST /v1/skills/register", .arguments = "path" },
	{ "GET /v1/skills/metadatas", "skills list", .show = "skills", .columns = "name path" },
	{ "GET /v1/skills/{name}/content", "skills show", .show = "content" },
	{ "POST /v1/jupyter/execute", "jupyter run", .input = "code", .show = "outputs" },
	{ "POST /v1/code/execute", "code run", "code", .input = "code", .show = "outputs" },
	{ "POST /api/v1/contexts/{context_id}/execute", "code contexts run", .input = "code", .show = "output" },
	{ "POST /v1/nodejs/execute", "nodejs run", .input = "code", .show = "outputs" },
	{ "POST /v1/browser/page/evaluate", .input = "expression" },
	{ "POST /v1/browser/page/dialog", "browser dialog answer", "action" },
	{ "POST /v1/browser/page/click", .arguments = "selector" },
	{ "POST /v1/browser/page/hover", .arguments = "selector" },
	{ "POST /v1/browser/page/fill", .arguments = "selector text" },
	{ "POST /v1/browser/page/select_option", .arguments = "selector value" },
	{ "POST /v1/browser/page/scroll", .arguments = "direction amount" },
	{ "POST /v1/browser/page/scroll_to", .arguments = "x y" },
	{ "POST /v1/browser/page/scroll_to_element", .arguments = "selector" },
	{ "POST /v1/browser/page/record", .arguments = "action" },
	{ "GET /v1/browser/page/markdown", .show = "markdown" },
	{ "GET /v1/browser/page/snapshot", .show = "snapshot" },
	{ "GET /v1/browser/tabs", .columns = "index active title url" },
	{ "POST /v1/browser/tabs", "browser tabs open", "url" },
	{ "DELETE /v1/browser/tabs/{index}", "browser tabs close" },
	{ "GET /v1/browser/page/elements", .columns = "index tag role name text" },
	{ "GET /v1/browser/network/requests", .columns = "id method status resource_type duration_ms url" },
	{ "DELETE /v1/browser/network/route", "browser network unroute" },
	{ "POST /v1/browser/cookies", "browser cookies set" },
	{ "GET /v1/browser/cookies", .columns = "name value domain path" },
	{ "GET /v1/browser/screenshot", "gui screenshot" },
	{ "POST /v1/browser/config", "gui resize", "resolution" },
	{ "POST /v1/browser/actions CLICK", .arguments = "x y" },
	{ "POST /v1/browser/actions RIGHT_CLICK", .arguments = "x y" },
	{ "POST /v1/browser/actions DOUBLE_CLICK", .arguments = "x y" },
	{ "POST /v1/browser/actions SCROLL", .arguments = "dx dy" },
	{ "POST /v1/browser/actions TYPING", "gui type" },
	{ "GET /v1/mcp/servers", "mcp list", .show = "servers", .columns = "name status kind" },
	{ "GET /v1/mcp/{server_name}/tools", .show = "tools", .columns = "name description" },
	{ "POST /v1/mcp/{server_name}/tools/{tool_name}", "mcp call", "server_name tool_name arguments", .input = "arguments", .show = "content" },
	/* clang-format on */
};

static const struct verb_note no_note = { 0 };

/* ---- names ---- */

static const struct verb_note *note_of(const struct route *route, const char *tag)
{
	char key[200];
	snprintf(key, sizeof key, "%s %s%s%s", route->method, route->path, tag ? " " : "",
		 tag ? tag : "");
	for (size_t i = 0; i < COUNT(notes); i++)
		if (!strcmp(notes[i].route, key))
			return &notes[i];
	return &no_note;
}

static void add_word(char *name, const char *word, size_t len)
{
	size_t at = strlen(name);
	if (at && at + 1 < VERB_NAME_MAX)
		name[at++] = ' ';
	for (size_t i = 0; i < len && at + 1 < VERB_NAME_MAX; i++) {
		unsigned char c = (unsigned char)word[i];
		name[at++] = (char)(isalnum(c) ? tolower(c) : '-');
	}
	name[at] = 0;
}

/* The segments of a path that are no parameters. */
static void name_path(const char *path, char name[VERB_NAME_MAX])
{
	size_t row = 0;
	while (strncmp(path, places[row].path, strlen(places[row].path)) != 0)
		row++;
	snprintf(name, VERB_NAME_MAX, "%s", places[row].words);
	path += strlen(places[row].path);
	while (*path) {
		size_t len = strcspn(path, "/");
		if (len && *path != '{')
			add_word(name, path, len);
		path += len + (path[len] == '/');
	}
}

static bool ends_with_parameter(const char *path)
{
	return *path && path[strlen(path) - 1] == '}';
}

static bool is_offered(const struct route *route)
{
	const struct verb_note *note = note_of(route, NULL);
	return !(route->flags & (INTERNAL | UPGRADE)) && route->handle &&
	       !(note->name && !*note->name);
}

/* Whether there is a GET of a collection of that name. */
static bool has_list(const struct route *but, const char *name)
{
	char other[VERB_NAME_MAX];
	for (size_t g = 0; api_groups[g]; g++)
		for (size_t i = 0; i < api_groups[g]->count; i++) {
			const struct route *route = &api_groups[g]->routes[i];
			if (route == but || strcmp(route->method, "GET") != 0 ||
			    !is_offered(route) || ends_with_parameter(route->path))
				continue;
			name_path(route->path, other);
			if (!strcmp(other, name))
				return true;
		}
	return false;
}

/* What a method does, where the path does not say it. */
static const char *last_word(const struct route *route, const char *name)
{
	bool one = ends_with_parameter(route->path), named = one;
	for (size_t i = 0; route->in && i < route->in->count; i++)
		named |= (route->in->fields[i].flags & REQUIRED) != 0;
	if (!strcmp(route->method, "DELETE"))
		return named ? "delete" : "clear";
	if (!has_list(route, name))
		return strchr(name, ' ') ? NULL : "info";
	return !strcmp(route->method, "GET")     ? (one ? "show" : NULL)
	       : !strcmp(route->method, "POST")  ? "create"
	       : !strcmp(route->method, "PATCH") ? "update"
						 : "set";
}

static void name_verb(struct api_verb *verb)
{
	if (verb->note->name) {
		snprintf(verb->name, sizeof verb->name, "%s", verb->note->name);
		return;
	}
	name_path(verb->route->path, verb->name);
	const char *last = verb->variant ? verb->variant->tag : last_word(verb->route, verb->name);
	if (last)
		add_word(verb->name, last, strlen(last));
}

/* ---- arguments ---- */

bool verbs_has(const struct field *field)
{
	return !(field->flags & HIDDEN) && field->type != T_STREAM;
}

static void take_named(struct api_verb *verb, const char *names)
{
	for (size_t len; *names; names += len + (names[len] == ' ')) {
		len = strcspn(names, " ");
		for (size_t i = 0; i < verb->in->count; i++) {
			const struct field *f = &verb->in->fields[i];
			if (strlen(f->name) == len && !memcmp(f->name, names, len) &&
			    verb->argument_count < VERB_ARGUMENTS)
				verb->arguments[verb->argument_count++] = f;
		}
	}
}

/* One value each, but for a list at the end. */
static void take_required(struct api_verb *verb, unsigned flag)
{
	for (size_t i = 0; i < verb->in->count; i++) {
		const struct field *f = &verb->in->fields[i];
		bool wanted = flag == PATH ? f->flags & PATH
					   : f->flags & REQUIRED && !(f->flags & PATH);
		if (wanted && verbs_has(f) && f->type != T_BOOL && !verbs_takes_many(verb) &&
		    verb->argument_count < VERB_ARGUMENTS)
			verb->arguments[verb->argument_count++] = f;
	}
}

static void add_verb(struct api_verb *verb, const struct route *route,
		     const struct variant *variant)
{
	verb->route = route;
	verb->variant = variant;
	verb->in = variant ? variant->of : route->in;
	verb->note = note_of(route, variant ? variant->tag : NULL);
	name_verb(verb);
	if (!verb->in)
		return;
	if (verb->note->arguments) {
		take_named(verb, verb->note->arguments);
		return;
	}
	take_required(verb, PATH);
	take_required(verb, REQUIRED);
}

/* ---- all ---- */

static size_t group_at(const char *name)
{
	size_t i = 0, len = strcspn(name, " ");
	while (verb_groups[i].name &&
	       (strlen(verb_groups[i].name) != len || memcmp(verb_groups[i].name, name, len) != 0))
		i++;
	return i;
}

static int compare(const void *a, const void *b)
{
	const struct api_verb *x = a, *y = b;
	size_t i = group_at(x->name), j = group_at(y->name);
	return i != j ? (i > j) - (i < j) : strcmp(x->name, y->name);
}

const struct api_verb *verbs_all(size_t *ret_count)
{
	static struct api_verb verbs[VERBS_MAX];
	static size_t count;
	bool known = count;
	for (size_t g = 0; !known && api_groups[g]; g++)
		for (size_t i = 0; i < api_groups[g]->count; i++) {
			const struct route *route = &api_groups[g]->routes[i];
			const struct schema *in = route->in;
			size_t variants = in && in->variants ? in->variant_count : 0;
			if (!is_offered(route) || count + variants + 1 > VERBS_MAX)
				continue;
			for (size_t k = 0; k < variants; k++)
				add_verb(&verbs[count++], route, &in->variants[k]);
			if (!variants)
				add_verb(&verbs[count++], route, NULL);
		}
	if (!known)
		qsort(verbs, count, sizeof *verbs, compare);
	*ret_count = count;
	return verbs;
}

const struct api_verb *verbs_find(int argc, char *const *argv, int *ret_words)
{
	size_t count;
	const struct api_verb *verbs = verbs_all(&count), *best = NULL;
	*ret_words = 0;
	for (size_t i = 0; i < count; i++) {
		const char *at = verbs[i].name;
		int words = 0;
		for (; *at && words < argc; words++) {
			size_t len = strcspn(at, " ");
			if (strlen(argv[words]) != len || memcmp(argv[words], at, len) != 0)
				break;
			at += len + (at[len] == ' ');
		}
		if (!*at && words > *ret_words) {
			best = &verbs[i];
			*ret_words = words;
		}
	}
	return best;
}

const char *verbs_own(const struct api_verb *verb)
{
	const char *space = strchr(verb->name, ' ');
	return space ? space + 1 : verb->name;
}

void verbs_usage(const struct api_verb *verb, struct buf *to)
{
	for (size_t i = 0; i < verb->argument_count; i++) {
		const struct field *f = verb->arguments[i];
		bool given = verb->note->input && !strcmp(verb->note->input, f->name);
		bool needed = f->flags & (REQUIRED | PATH) && !given;
		buf_str(to, needed ? i ? " " : "" : i ? " [" : "[");
		for (const char *c = f->name; *c; c++)
			buf_add(to, (char[]){ (char)toupper((unsigned char)*c) }, 1);
		if (f->type == T_LIST)
			buf_str(to, "...");
		if (!needed)
			buf_str(to, "]");
	}
}
