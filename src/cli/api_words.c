#include "cli/api_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/nearest.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/flags.h"

enum { INPUT_MAX = 64 << 20, FLAG_MAX = 64, WORDS_MAX = 1000 };

bool api_gives_file(const struct route *route)
{
	return route->type && strcmp(route->type, "text/event-stream") != 0;
}

static const struct field *find(const struct schema *schema, const char *name, size_t len)
{
	for (size_t i = 0; schema && i < schema->count; i++) {
		const struct field *f = &schema->fields[i];
		size_t n = 0;
		while (n < len && f->name[n] &&
		       (f->name[n] == name[n] || (f->name[n] == '_' && name[n] == '-')))
			n++;
		if (n == len && !f->name[n])
			return f;
	}
	return NULL;
}

/* ---- values ---- */

/* A path that is not UTF-8 goes as the base64 of its bytes. */
static int set_bytes(struct api_wish *wish, const struct field *f, const char *text, size_t len)
{
	const struct field *b64 = find(wish->verb->in, "path_b64", 8);
	auto_buf struct buf to = BUF(len * 2 + 8);
	if (!b64 || (strcmp(f->name, "path") != 0 && strcmp(f->name, "file") != 0) ||
	    base64_encode(&to, text, len) < 0)
		return -1;
	json_object_set_new(wish->fields, f->name, json_string(""));
	return json_object_set_new(wish->fields, b64->name, json_string(to.data));
}

static int set(struct api_wish *wish, const struct field *f, const char *text)
{
	if (!utf8_valid(text, strlen(text)))
		return set_bytes(wish, f, text, strlen(text));
	return flags_set(f, text, wish->fields);
}

static char *read_input(size_t *ret_len, struct err *err)
{
	auto_buf struct buf all = BUF(INPUT_MAX);
	char piece[65536];
	ssize_t n;
	while ((n = read(STDIN_FILENO, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && buf_add(&all, piece, (size_t)n) < 0) {
			(void)err_set(
				err, ERR_TOO_LARGE,
				"standard input has more than %d MiB: 'aio file cp' copies files "
				"of any size",
				INPUT_MAX >> 20);
			return NULL;
		}
	if (n < 0) {
		(void)err_set(err, errno, "reading standard input");
		return NULL;
	}
	*ret_len = all.len;
	char *data = all.data ? all.data : xstrdup("");
	all.data = NULL;
	return data;
}

/* Bytes that are not text go as base64, where the operation takes that. */
static int set_input(struct api_wish *wish, const struct field *f, struct err *err)
{
	size_t len = 0;
	auto_free char *data = read_input(&len, err);
	if (!data)
		return -1;
	if (utf8_valid(data, len)) {
		json_object_set_new(wish->fields, f->name, json_stringn(data, len));
		return 0;
	}
	if (!find(wish->verb->in, "encoding", 8))
		return err_set(err, ERR_INVALID, "standard input is not UTF-8");
	auto_buf struct buf text = BUF(len * 2 + 8);
	if (base64_encode(&text, data, len) < 0)
		return err_set(err, ERR_TOO_LARGE, "standard input");
	json_object_set_new(wish->fields, f->name, json_string(text.data));
	json_object_set_new(wish->fields, "encoding", json_string("base64"));
	return 0;
}

/* ---- flags ---- */

static int unknown(const struct api_wish *wish, const char *arg, size_t len, struct err *err)
{
	static const char *const own[] = { "json", "plain", "help", NULL };
	const struct schema *in = wish->verb->in;
	auto_free char *word = xstrndup(arg, len);
	char nearest[FLAG_MAX] = "";
	size_t best = NEAREST_FAR;
	for (size_t i = 0; in && i < in->count; i++)
		if (verbs_has(&in->fields[i]) && nearest_better(word, in->fields[i].name, &best))
			snprintf(nearest, sizeof nearest, "%s", in->fields[i].name);
	for (size_t i = 0; own[i]; i++)
		if (nearest_better(word, own[i], &best))
			snprintf(nearest, sizeof nearest, "%s", own[i]);
	for (size_t i = 0; endpoint_names[i]; i++)
		if (nearest_better(word, endpoint_names[i] + 2, &best))
			snprintf(nearest, sizeof nearest, "%s", endpoint_names[i] + 2);
	for (char *c = nearest; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return err_set(err, ERR_INVALID, "unknown option '--%.80s'%s%s%s (see --help)", word,
		       *nearest ? ": did you mean '--" : "", nearest, *nearest ? "'?" : "");
}

static int take_field(struct api_wish *wish, int argc, char **argv, int *at, struct err *err)
{
	const char *arg = argv[*at] + 2;
	size_t len = strcspn(arg, "=");
	const struct field *f = find(wish->verb->in, arg, len);
	if (!f)
		return unknown(wish, arg, len, err);
	const char *value = arg[len] ? arg + len + 1 : NULL;
	if (!value && (f->type == T_BOOL || f->type == T_TRI))
		value = "true";
	else if (!value && *at + 1 < argc)
		value = argv[++*at];
	++*at;
	if (!value || set(wish, f, value) < 0)
		return flags_refuse(f, arg, (int)len, value, err);
	return 0;
}

static int take_own(struct api_wish *wish, int argc, char **argv, int *at, struct err *err)
{
	const char *arg = argv[*at];
	bool file = api_gives_file(wish->verb->route);
	if (!strcmp(arg, "--json"))
		wish->json = true;
	else if (!strcmp(arg, "--plain"))
		wish->plain = true;
	else if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
		wish->help = true;
	else if (file && !strncmp(arg, "--output=", 9))
		wish->output = arg + 9;
	else if (file && (!strcmp(arg, "-o") || !strcmp(arg, "--output"))) {
		if (*at + 1 >= argc)
			return err_set(err, ERR_INVALID, "%s needs a value: FILE (see --help)",
				       arg);
		wish->output = argv[++*at];
	} else
		return 0;
	++*at;
	return 1;
}

static int take_flag(struct api_wish *wish, int argc, char **argv, int *at, struct err *err)
{
	int took = take_own(wish, argc, argv, at, err);
	if (took == 0)
		took = endpoint_take(&wish->where, argc, argv, at, err);
	if (took)
		return took < 0 ? -1 : 0;
	if (argv[*at][1] == '-')
		return take_field(wish, argc, argv, at, err);
	return err_set(err, ERR_INVALID, "unknown option '%s' (see --help)", argv[*at]);
}

/* ---- arguments ---- */

static bool is_input(const struct api_verb *verb, const struct field *f)
{
	return verb->note->input && !strcmp(verb->note->input, f->name);
}

static bool is_needed(const struct api_verb *verb, const struct field *f)
{
	return f->flags & (REQUIRED | PATH) && !is_input(verb, f);
}

/* The arguments that no flag has given, without the last ones that may be absent where there are too few
 * words. */
static size_t pick_slots(const struct api_wish *wish, size_t words,
			 const struct field *slots[VERB_ARGUMENTS])
{
	const struct api_verb *verb = wish->verb;
	size_t count = 0;
	for (size_t i = 0; i < verb->argument_count; i++)
		if (!json_object_get(wish->fields, verb->arguments[i]->name))
			slots[count++] = verb->arguments[i];
	for (size_t i = count; i-- > 0 && count > words;) {
		if (is_needed(verb, slots[i]))
			continue;
		memmove(&slots[i], &slots[i + 1], sizeof *slots * (--count - i));
	}
	return count;
}

static int set_word(struct api_wish *wish, const struct field *f, const char *word, struct err *err)
{
	if (is_input(wish->verb, f) && !strcmp(word, "-"))
		return set_input(wish, f, err);
	if (set(wish, f, word) < 0)
		return flags_refuse(f, f->name, (int)strlen(f->name), word, err);
	return 0;
}

static int set_words(struct api_wish *wish, char **words, size_t count, struct err *err)
{
	const struct field *slots[VERB_ARGUMENTS];
	size_t n = pick_slots(wish, count, slots);
	bool many = n && slots[n - 1]->type == T_LIST;
	for (size_t i = 0; i < count; i++) {
		if (i >= n && !many)
			return err_set(err, ERR_INVALID, "unexpected argument '%s' (see --help)",
				       words[i]);
		if (set_word(wish, slots[i < n ? i : n - 1], words[i], err) < 0)
			return -1;
	}
	return 0;
}

static int missing(const struct api_verb *verb, const struct field *f, struct err *err)
{
	auto_buf struct buf usage = BUF(1000);
	char name[FLAG_MAX];
	bool argument = false;
	verbs_usage(verb, &usage);
	for (size_t i = 0; i < verb->argument_count; i++)
		argument |= verb->arguments[i] == f;
	snprintf(name, sizeof name, "%s%s", argument ? "" : "--", f->name);
	for (char *c = name; *c; c++)
		*c = argument ? (char)toupper((unsigned char)*c) : *c == '_' ? '-' : *c;
	return err_set(err, ERR_INVALID, "%s is missing; usage: aio %s%s%s (see --help)", name,
		       verb->name, usage.len ? " " : "", usage.len ? usage.data : "");
}

/* What is required and absent: standard input gives it, or false stands for it. */
static int settle(struct api_wish *wish, struct err *err)
{
	const struct schema *in = wish->verb->in;
	for (size_t i = 0; in && i < in->count; i++) {
		const struct field *f = &in->fields[i];
		if (!(f->flags & (REQUIRED | PATH)) || !verbs_has(f) ||
		    json_object_get(wish->fields, f->name))
			continue;
		if (f->type == T_BOOL)
			json_object_set_new(wish->fields, f->name, json_false());
		else if (json_object_get(wish->fields, "path_b64"))
			json_object_set_new(wish->fields, f->name, json_string(""));
		else if (!is_input(wish->verb, f) || isatty(STDIN_FILENO))
			return missing(wish->verb, f, err);
		else if (set_input(wish, f, err) < 0)
			return -1;
	}
	return 0;
}

static bool is_flag(const char *arg)
{
	return arg[0] == '-' && arg[1] && !isdigit((unsigned char)arg[1]) && arg[1] != '.';
}

int api_words(struct api_wish *wish, int argc, char **argv, struct err *err)
{
	auto_free char **words = xcalloc((size_t)argc + 1, sizeof *words);
	size_t count = 0;
	bool flags = true;
	for (int at = 0; at < argc;) {
		if (flags && !strcmp(argv[at], "--")) {
			flags = false;
			at++;
		} else if (!flags || !is_flag(argv[at])) {
			words[count++] = argv[at++];
		} else if (take_flag(wish, argc, argv, &at, err) < 0) {
			return -1;
		}
	}
	if (wish->help)
		return 0;
	return set_words(wish, words, count, err) < 0 ? -1 : settle(wish, err);
}
