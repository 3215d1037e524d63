#include "mcp/prompt.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "mcp/exchange.h"
#include "mcp/page.h"

enum { TEXT_MAX = 1 << 20 };

const struct prompt_table *prompt_extra;

static const struct prompt prompts[] = {
	{ "explore_workspace",
	  "Explore the workspace",
	  "Find out what is in the sandbox's workspace and tell it briefly.",
	  { { "focus", "What to look for; everything when absent.", 0 } },
	  "Look at the workspace of the sandbox: read sandbox_get_context once, list the files "
	  "(sandbox_file_operations with action list, or sandbox_execute_bash with `git status` and "
	  "`ls`), and open what explains the rest: README, package files, entry points.[[ Pay "
	  "attention to: {focus}.]] Then say in at most 15 lines what the project is, how it is "
	  "built, run and tested, and what looks unfinished or broken. Change nothing." },
	{ "run_and_fix",
	  "Run a command and fix what fails",
	  "Run a command, find the cause of a failure, fix it, and run it again until it passes.",
	  { { "command", "The command that must succeed, such as `make test`.", 1 },
	    { "directory", "Where to run it; the workspace when absent.", 0 } },
	  "Run `{command}` with sandbox_execute_bash[[ in the directory {directory}]]. If its exit "
	  "code is not 0, read the output, find the cause in the sources, and make the smallest change "
	  "that removes the cause (sandbox_str_replace_editor), not the symptom. Run it again. "
	  "Repeat until it passes; stop after five attempts without progress. In the end show the "
	  "changes and the last lines of the passing run." },
	{ "analyze_data",
	  "Analyze a data file",
	  "Look at a data file with Python and answer a question about it.",
	  { { "path", "The file: CSV, JSON, Excel, text.", 1 },
	    { "question", "What to find out; an overview when absent.", 0 } },
	  "Analyze the file {path} in the sandbox with Python (sandbox_execute_code, or "
	  "sandbox_execute_bash with python3). Begin with its size, columns, types and missing "
	  "values; do not print more than 50 rows.[[ Then answer: {question}]] State how each figure "
	  "was computed, and save charts as PNG files in the workspace." },
};
static const struct prompt_table own = { prompts, COUNT(prompts) };

static size_t count_all(void)
{
	return own.count + (prompt_extra ? prompt_extra->count : 0);
}

static const struct prompt *at(size_t i)
{
	return i < own.count ? &own.prompts[i] : &prompt_extra->prompts[i - own.count];
}

/* ---- the list ---- */

static void put_prompt(struct jw *jw, const struct prompt *prompt)
{
	jw_open(jw, '{');
	jw_key_str(jw, "name", prompt->name);
	jw_key_str(jw, "title", prompt->title);
	jw_key_str(jw, "description", prompt->help);
	jw_key(jw, "arguments");
	jw_open(jw, '[');
	for (size_t i = 0; i < COUNT(prompt->arguments) && prompt->arguments[i].name; i++) {
		jw_open(jw, '{');
		jw_key_str(jw, "name", prompt->arguments[i].name);
		jw_key_str(jw, "description", prompt->arguments[i].help);
		jw_key_bool(jw, "required", prompt->arguments[i].required);
		jw_close(jw, '}');
	}
	jw_close(jw, ']');
	jw_close(jw, '}');
}

int prompt_list(struct exchange *ex, struct err *err)
{
	(void)err;
	size_t from, count = count_all();
	if (page_start(ex, &from) < 0)
		return -1;
	jw_key(&ex->jw, "prompts");
	jw_open(&ex->jw, '[');
	for (size_t i = from; i < count && i < from + PAGE_SIZE; i++)
		put_prompt(&ex->jw, at(i));
	jw_close(&ex->jw, ']');
	page_end(ex, from, count);
	return 0;
}

/* ---- one of them ---- */

void prompt_argument(const struct exchange *ex, const char *name, const char **ret)
{
	const json_t *arguments = json_object_get(ex->params, "arguments");
	*ret = json_string_value(json_object_get(arguments, name));
}

void prompt_put(struct exchange *ex, const char *text, size_t len)
{
	struct jw *jw = &ex->jw;
	jw_open(jw, '{');
	jw_key_str(jw, "role", "user");
	jw_key(jw, "content");
	jw_open(jw, '{');
	jw_key_str(jw, "type", "text");
	jw_key(jw, "text");
	jw_text(jw, text, len);
	jw_close(jw, '}');
	jw_close(jw, '}');
}

/* Appends text[0..len) with its arguments; false when one is absent. */
static bool fill(const struct exchange *ex, const char *text, size_t len, struct buf *to)
{
	bool whole = true;
	for (const char *end = text + len; text < end;) {
		const char *value = NULL, *close = memchr(text, '}', (size_t)(end - text));
		if (*text != '{' || !close) {
			buf_add(to, text++, 1);
			continue;
		}
		auto_free char *name = xstrndup(text + 1, (size_t)(close - text - 1));
		prompt_argument(ex, name, &value);
		buf_str(to, value ? value : "");
		whole = whole && value && *value;
		text = close + 1;
	}
	return whole;
}

static void fill_all(const struct exchange *ex, const char *text, struct buf *to)
{
	for (const char *open; (open = strstr(text, "[["));) {
		const char *close = strstr(open, "]]");
		fill(ex, text, (size_t)(open - text), to);
		size_t before = to->len;
		if (!fill(ex, open + 2, (size_t)(close - open - 2), to))
			to->len = before;
		text = close + 2;
	}
	fill(ex, text, strlen(text), to);
}

int prompt_get(struct exchange *ex, struct err *err)
{
	const char *name = json_string_value(json_object_get(ex->params, "name"));
	const struct prompt *prompt = NULL;
	for (size_t i = 0; name && i < count_all() && !prompt; i++)
		prompt = !strcmp(at(i)->name, name) ? at(i) : NULL;
	if (!prompt)
		return exchange_fail(ex, RPC_PARAMS,
				     name ? "there is no prompt '%.100s'" : "name is missing%s",
				     name ? name : "");
	for (size_t i = 0; i < COUNT(prompt->arguments) && prompt->arguments[i].name; i++) {
		const char *value;
		prompt_argument(ex, prompt->arguments[i].name, &value);
		if (prompt->arguments[i].required && !value)
			return exchange_fail(ex, RPC_PARAMS, "the argument '%s' is missing",
					     prompt->arguments[i].name);
	}
	if (prompt->write) {
		int result = prompt->write(ex, err);
		if (result || ex->result_type)
			return result;
	}
	jw_key_str(&ex->jw, "description", prompt->help);
	if (prompt->write)
		return 0;
	auto_buf struct buf text = BUF(TEXT_MAX);
	fill_all(ex, prompt->text, &text);
	jw_key(&ex->jw, "messages");
	jw_open(&ex->jw, '[');
	prompt_put(ex, text.data ? text.data : "", text.len);
	jw_close(&ex->jw, ']');
	return 0;
}
