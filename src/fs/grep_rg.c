/* Searching with ripgrep: its own process, which does not outlive the search. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "fs/grep.h"
#include "fs/rg_json.h"
#include "fs/walk.h"
#include "proc/child.h"

enum { MESSAGE_MAX = 16 << 20 };

struct grep_rg_search {
	struct grep *grep;
	struct rg_message message;
	struct buf partial; /* the beginning of a message whose end has not come yet */
	bool passing;       /* over the rest of one that is too long */
	bool wanted;        /* the file that is being told of */
	bool over;          /* all was told */
	bool refused;       /* what came is not what ripgrep says */
};

/* ---- what it says ---- */

static void handle(struct grep_rg_search *s, const char *text, size_t len)
{
	struct rg_message *m = &s->message;
	struct grep *grep = s->grep;
	if (rg_json_parse(text, len, m, NULL) < 0) {
		s->refused = true;
		return;
	}
	const char *path = strncmp(m->path.data, "./", 2) == 0 ? m->path.data + 2 : m->path.data;
	switch (m->type) {
	case RG_BEGIN:
		s->wanted = !grep->spec->is_dir || grep_wanted(grep->spec, path);
		if (s->wanted)
			grep_open(grep, grep->spec->is_dir ? path : "");
		break;
	case RG_MATCH:
	case RG_CONTEXT:
		if (s->wanted && grep->current)
			grep_put(grep, m->line, m->text.data, m->text.len, m->type == RG_MATCH,
				 m->start > 0 ? (size_t)m->start : 0);
		break;
	case RG_END:
		if (s->wanted)
			grep_close(grep, !m->binary);
		break;
	case RG_SUMMARY:
		s->over = true; /* its numbers are of files with matches only */
		break;
	case RG_OTHER:
		break;
	}
}

static bool take(void *arg, const char *data, size_t len)
{
	struct grep_rg_search *s = arg;
	while (len && !s->refused) {
		const char *newline = memchr(data, '\n', len);
		size_t n = newline ? (size_t)(newline - data) : len;
		if (!s->passing && newline && !s->partial.len) {
			handle(s, data, n);
		} else if (!s->passing && buf_add(&s->partial, data, n) < 0) {
			s->passing = true;
			s->grep->why = "a line is too long";
		} else if (newline && !s->passing) {
			handle(s, s->partial.data, s->partial.len);
		}
		if (newline) {
			s->passing = s->partial.full = false;
			s->partial.len = 0;
		}
		n += newline != NULL;
		data += n;
		len -= n;
	}
	if (!grep_enough(s->grep))
		return !s->refused;
	grep_close(s->grep, true);
	s->grep->why = "there are too many matches";
	return false;
}

/* ---- what it is told ---- */

struct arguments {
	struct arena *arena;
	char **items;
	size_t count, room;
};

static void add(struct arguments *args, const char *text)
{
	if (args->count + 1 >= args->room) {
		size_t room = args->room ? args->room * 2 : 64;
		char **items = arena_alloc(args->arena, room * sizeof *items);
		if (args->count)
			memcpy(items, args->items, args->count * sizeof *items);
		args->items = items;
		args->room = room;
	}
	args->items[args->count++] = (char *)text;
	args->items[args->count] = NULL;
}

/* Patterns that let pass more than ours, where its are not the same: what it finds is looked at again. */
static void add_globs(struct arguments *args, const struct globs *globs, bool exclude)
{
	for (size_t i = 0; i < globs->count; i++)
		for (size_t k = 0; k < glob_count(globs->items[i]); k++) {
			auto_buf struct buf text = BUF(GLOB_LENGTH_MAX * 4);
			buf_str(&text, exclude ? "--glob=!" : "--glob=");
			bool exact = glob_text(globs->items[i], k, &text);
			if (exact || !exclude)
				add(args, arena_strdup(args->arena, text.data));
		}
}

static void add_passed_over(struct arguments *args, const char *root)
{
	auto_buf struct buf mounts = BUF(1 << 20);
	walk_passed_over(root, &mounts);
	for (const char *at = mounts.data; at && *at; at += strlen(at) + 1) {
		auto_buf struct buf text = BUF(8192);
		buf_str(&text, "--glob=!/");
		for (const char *c = at; *c; c++)
			buf_printf(&text, strchr("*?[]{}\\!# ", *c) ? "\\%c" : "%c", *c);
		add(args, arena_strdup(args->arena, text.data));
	}
}

static void add_filters(struct arguments *args, const struct grep_spec *spec)
{
	bool by_type = spec->type_name && !spec->type.count;
	if (by_type)
		add(args, arena_printf(args->arena, "--type=%s", spec->type_name));
	else if (spec->include.count)
		add_globs(args, &spec->include, false);
	else
		add_globs(args, &spec->type, false);
	add_globs(args, &spec->exclude, true);
	add(args, "--glob=!.git");
	add(args, "--glob=!.hg");
	add(args, "--glob=!.svn");
	add_passed_over(args, spec->path);
	if (!spec->recursive)
		add(args, "--max-depth=1");
}

static char *const *arguments(struct arena *arena, const char *program,
			      const struct grep_spec *spec)
{
	static const char *const always[] = { "--json",   "--no-config",   "--no-ignore",
					      "--hidden", "--no-messages", "--no-mmap",
					      "--crlf" };
	struct arguments args = { .arena = arena };
	add(&args, program);
	for (size_t i = 0; i < COUNT(always); i++)
		add(&args, always[i]);
	add(&args, spec->fold ? "--ignore-case" : "--case-sensitive");
	if (spec->literal)
		add(&args, "--fixed-strings");
	if (spec->multiline) {
		add(&args, "--multiline");
		add(&args, "--multiline-dotall");
	}
	add(&args, arena_printf(arena, "--before-context=%d", spec->before));
	add(&args, arena_printf(arena, "--after-context=%d", spec->after));
	add(&args, arena_printf(arena, "--max-filesize=%lld", (long long)spec->max_file_size));
	if (spec->is_dir)
		add_filters(&args, spec);
	add(&args, arena_printf(arena, "--regexp=%s", spec->pattern));
	add(&args, "--");
	add(&args, spec->is_dir ? "./" : spec->path);
	return args.items;
}

/* Where it is, on the server's own PATH; NULL: nowhere. */
static const char *find_program(struct arena *arena)
{
	const char *at = getenv("PATH");
	while (at && *at) {
		size_t len = strcspn(at, ":");
		const char *path = arena_printf(arena, "%.*s/rg", (int)len, at);
		if (*at == '/' && access(path, X_OK) == 0)
			return path;
		at += len + (at[len] == ':');
	}
	return NULL;
}

static int search(struct grep_rg_search *s, struct arena *arena, const char *program,
		  struct err *err)
{
	static char *const env[] = { (char *)"LANG=C.UTF-8", NULL };
	const struct grep_spec *spec = s->grep->spec;
	struct program_status end;
	struct child_spec child = {
		.argv = arguments(arena, program, spec),
		.env = env,
		.dir = spec->is_dir ? spec->path : "/",
		.user = spec->user,
		.wait = spec->wait,
		.take = take,
		.arg = s,
	};
	int result = child_run(&child, NULL, &end, err);
	if (result < 0 && err->code == ERR_SLOW) {
		grep_close(s->grep, true);
		s->grep->why = "the search took too long";
		return 0;
	}
	if (result < 0)
		return -1;
	if (s->over || s->grep->why)
		return 0;
	if (end.signal && !s->refused)
		return err_set(err, EIO, "ripgrep was ended by signal %d", end.signal);
	return 1; /* a pattern, a type or an option that it does not know */
}

int grep_rg(struct grep *grep, struct err *err)
{
	struct arena arena = { 0 };
	struct grep_rg_search s = { .grep = grep, .partial = BUF(MESSAGE_MAX) };
	rg_message_init(&s.message, MESSAGE_MAX);
	const char *program = find_program(&arena);
	int result = program ? search(&s, &arena, program, err) : 1;
	rg_message_done(&s.message);
	buf_done(&s.partial);
	arena_done(&arena);
	return result;
}
