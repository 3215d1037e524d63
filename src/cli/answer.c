#include "cli/answer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/ask.h"
#include "cli/table.h"

enum { COLUMNS = 7, CELL_MAX = 100, TIMED_OUT = 124, KILLED = 137 };

/* ---- harmless text ---- */

static void put_text(FILE *to, const char *text, bool ends)
{
	auto_free char *copy = xstrdup(text);
	size_t len = strlen(copy);
	if (isatty(fileno(to)))
		ask_make_plain(copy, len, true);
	fputs(copy, to);
	if (ends && len && copy[len - 1] != '\n')
		fputc('\n', to);
}

static char *value_text(const json_t *value)
{
	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	return value && !json_is_null(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
					     : NULL;
}

/* ---- tables ---- */

static char *cell_text(const json_t *value)
{
	char *text = value_text(value);
	if (!text)
		return NULL;
	size_t len = utf8_fit(text, CELL_MAX);
	bool cut = text[len];
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	for (char *c = text; *c; c++)
		*c = *c == '\t' ? ' ' : *c;
	ask_make_plain(text, strlen(text), false);
	char *cell = xasprintf("%s%s", text, cut ? "…" : "");
	free(text);
	return cell;
}

static bool is_plain(const json_t *value)
{
	return value && !json_is_object(value) && !json_is_array(value) && !json_is_null(value);
}

/* Those that are named; else those that have a plain value in some row. */
static size_t pick_columns(const char *named, const json_t *rows, char *names[COLUMNS])
{
	size_t count = 0, i;
	const char *key;
	json_t *row, *value;
	for (size_t len; named && *named && count < COLUMNS; named += len + (named[len] == ' ')) {
		len = strcspn(named, " ");
		names[count++] = xstrndup(named, len);
	}
	if (count)
		return count;
	json_array_foreach(rows, i, row)
		json_object_foreach(row, key, value) {
			bool known = !is_plain(value);
			for (size_t k = 0; k < count; k++)
				known |= !strcmp(names[k], key);
			if (!known && count < COLUMNS)
				names[count++] = xstrdup(key);
		}
	return count;
}

static void put_table(const char *named, const json_t *rows)
{
	char *names[COLUMNS], *titles[COLUMNS], *cells[COLUMNS];
	json_t *row;
	size_t i, count = pick_columns(named, rows, names);
	for (size_t c = 0; c < count; c++) {
		titles[c] = xstrdup(names[c]);
		ask_make_plain(titles[c], strlen(titles[c]), false);
		for (char *at = titles[c]; *at; at++)
			*at = *at == '_' ? ' ' : (char)toupper((unsigned char)*at);
	}
	struct table *table = count ? table_new((const char *const *)titles, count) : NULL;
	json_array_foreach(rows, i, row) {
		for (size_t c = 0; c < count; c++)
			cells[c] = cell_text(json_object_get(row, names[c]));
		if (table)
			table_row(table, (const char *const *)cells);
		for (size_t c = 0; c < count; c++)
			free(cells[c]);
	}
	if (table)
		table_print(table);
	table_free(table);
	for (size_t c = 0; c < count; c++) {
		free(names[c]);
		free(titles[c]);
	}
}

/* {"a": {…}, "b": {…}} as rows that begin with "id". */
static json_t *rows_of(const json_t *map)
{
	const char *key;
	json_t *value, *rows = json_array();
	json_object_foreach((json_t *)map, key, value) {
		json_t *row = json_pack("{ss}", "id", key);
		json_object_update_missing(row, value);
		json_array_append_new(rows, row);
	}
	return rows;
}

static bool holds_objects(const json_t *value)
{
	json_t *item;
	const char *key;
	size_t i;
	json_array_foreach(value, i, item)
		if (!json_is_object(item))
			return false;
	json_object_foreach((json_t *)value, key, item)
		if (!json_is_object(item))
			return false;
	return json_array_size(value) || json_object_size(value);
}

/* ---- what code printed ---- */

/* Without the colours and moves of a terminal. */
static void put_printed(FILE *to, const char *text, bool ends)
{
	auto_free char *copy = xstrdup(text);
	char *out = copy;
	for (const char *at = text; *at;) {
		if (at[0] != '\033' || at[1] != '[') {
			*out++ = *at++;
			continue;
		}
		at += 2;
		while (*at >= ' ' && *at < '@')
			at++;
		at += *at >= '@' && *at <= '~';
	}
	*out = 0;
	put_text(to, isatty(fileno(to)) ? copy : text, ends);
}

static void put_lines(FILE *to, const json_t *lines)
{
	json_t *line;
	size_t i;
	json_array_foreach(lines, i, line)
		put_printed(to, json_string_value(line) ? json_string_value(line) : "", true);
}

/* `told`: the error is among what was printed already. */
static void put_output(const json_t *output, bool told)
{
	const char *type = ask_text(output, "output_type"), *text = ask_text(output, "text");
	const char *name = ask_text(output, "name");
	json_t *data = json_object_get(output, "data");
	if (type && !strcmp(type, "error")) {
		if (!told)
			put_lines(stderr, json_object_get(output, "traceback"));
	} else if (text) {
		put_printed(name && !strcmp(name, "stderr") ? stderr : stdout, text, false);
	} else if (data) {
		auto_free char *plain = value_text(json_object_get(data, "text/plain"));
		put_printed(stdout, plain ? plain : "(a picture or other data: see --json)", true);
	}
}

static void put_streams(const json_t *data)
{
	const char *out = ask_text(data, "stdout"), *errors = ask_text(data, "stderr");
	put_printed(stdout, out ? out : "", false);
	fflush(stdout);
	put_printed(stderr, errors ? errors : "", false);
}

/* ---- any value ---- */

static void put_values(const json_t *object)
{
	const char *key;
	json_t *value;
	int width = 14;
	json_object_foreach((json_t *)object, key, value)
		if (strlen(key) > (size_t)width && strlen(key) < 30)
			width = (int)strlen(key);
	json_object_foreach((json_t *)object, key, value) {
		auto_free char *text = value_text(value);
		auto_free char *line = xasprintf("%-*s %s", width, key, text ? text : "-");
		put_text(stdout, line, true);
	}
}

static void put_value(const char *columns, const json_t *value)
{
	json_t *item;
	size_t i;
	if (json_is_string(value)) {
		put_text(stdout, json_string_value(value), true);
	} else if (holds_objects(value)) {
		json_t *rows = json_is_array(value) ? json_incref((json_t *)value) : rows_of(value);
		put_table(columns, rows);
		json_decref(rows);
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, item) {
			auto_free char *text = value_text(item);
			put_text(stdout, text ? text : "null", true);
		}
	} else if (json_is_object(value)) {
		put_values(value);
	} else {
		auto_free char *text = value_text(value);
		puts(text ? text : "null");
	}
}

/* The only member that is a table, if there is one, stands for all of the object. */
static const json_t *only_table(const json_t *data)
{
	const char *key;
	json_t *value, *found = NULL;
	json_object_foreach((json_t *)data, key, value) {
		if (holds_objects(value) && found)
			return data;
		if (holds_objects(value))
			found = value;
	}
	return found && json_object_size(data) <= 3 ? found : data;
}

/* What a tool answered: its texts. */
static void put_content(const json_t *content)
{
	json_t *item;
	size_t i;
	json_array_foreach(content, i, item) {
		const char *text = ask_text(item, "text");
		auto_free char *dump = text ? NULL : value_text(item);
		put_printed(stdout, text ? text : dump, true);
	}
}

static void put_show(const struct api_verb *verb, const json_t *data, const json_t *shown)
{
	json_t *item;
	size_t i;
	if (!strcmp(verb->note->show, "outputs"))
		json_array_foreach(shown, i, item)
			put_output(item, ask_text(data, "stderr"));
	else if (!strcmp(verb->note->show, "content") && json_is_array(shown))
		put_content(shown);
	else if (!strcmp(verb->note->show, "stdout"))
		put_streams(data);
	else if (!strcmp(verb->note->show, "output") && json_is_string(shown))
		put_printed(stdout, json_string_value(shown), true);
	else if (json_is_object(shown) && json_object_get(shown, "stdout"))
		put_streams(shown);
	else if (shown && !json_is_null(shown))
		put_value(verb->note->columns, shown);
}

static void put_note(const json_t *answer, const json_t *data)
{
	const char *hint = ask_text(answer, "hint"), *status = ask_text(data, "status");
	const char *session = ask_text(data, "session_id");
	fflush(stdout);
	if (json_is_true(json_object_get(data, "truncated")))
		fputs("(there is more: it was cut)\n", stderr);
	if (session && status && !strcmp(status, "running"))
		put_text(stderr, "(still running)", true);
	if (hint)
		put_text(stderr, hint, true);
}

void answer_print(const struct api_verb *verb, json_t *answer, json_t *data)
{
	const char *show = verb->note->show, *message = ask_text(answer, "message");
	json_t *shown = show ? json_object_get(data, show) : NULL;
	if (show && !shown)
		shown = json_object_get(answer, show);
	if (show && (shown || json_is_object(data)))
		put_show(verb, data, shown);
	else if (data && !json_is_null(data))
		put_value(verb->note->columns, only_table(data));
	else
		put_text(stdout, message ? message : "done", true);
	put_note(answer, data);
}

/* ---- how it ended ---- */

int answer_status(const struct api_verb *verb, const json_t *data)
{
	static const struct {
		const char *word;
		int status;
	} words[] = { { "error", 1 },
		      { "timeout", TIMED_OUT },
		      { "timed_out", TIMED_OUT },
		      { "hard_timeout", TIMED_OUT },
		      { "killed", KILLED },
		      { "terminated", KILLED } };
	const char *status = ask_text(data, "status");
	const json_t *code = json_object_get(data, "exit_code");
	if (json_is_true(json_object_get(data, "isError")) ||
	    json_is_false(json_object_get(data, "success")))
		return 1;
	if (!(verb->route->flags & RUNS))
		return 0;
	for (size_t i = 0; status && i < COUNT(words); i++)
		if (!strcmp(status, words[i].word) && !(i == 0 && json_integer_value(code)))
			return words[i].status;
	json_int_t value = json_integer_value(code);
	return value < 0 || value > 255 ? 1 : (int)value;
}
