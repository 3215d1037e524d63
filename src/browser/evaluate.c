#include "browser/evaluate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/navigate.h"
#include "browser/share_js.h"

enum { SCRIPT_MAX = 1 << 20, PROBE_MS = 300 };

struct evaluation {
	struct tab *tab;
	const char *expression;
	struct arena *arena;
	const char **ret_thrown;
	const struct wait *wait;
	struct err *err;
	char group[32]; /* of the objects it has in the page */
	bool gone;      /* the document went away */
};

static struct evaluation begin(struct tab *tab, const char *expression, struct arena *arena,
			       const char **ret_thrown, const struct wait *wait, struct err *err)
{
	static _Atomic unsigned long long number;
	struct evaluation e = { tab, expression, arena, ret_thrown, wait, err, "", false };
	snprintf(e.group, sizeof e.group, "aio-%llu", atomic_fetch_add(&number, 1));
	*ret_thrown = NULL;
	return e;
}

/* ---- what was thrown ---- */

static int put_thrown(struct evaluation *e, const json_t *details)
{
	const json_t *exception = json_object_get(details, "exception");
	const char *words = cdp_text(exception, "description");
	const json_t *value = json_object_get(exception, "value");
	auto_free char *plain = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
	words = json_string_value(value) ? json_string_value(value)
		: *words                 ? words
		: plain                  ? plain
					 : cdp_text(details, "text");
	size_t len = strlen(words);
	*e->ret_thrown = arena_strndup(e->arena, words, len < THROWN_MAX ? len : THROWN_MAX);
	return err_set(e->err, ERR_CONFLICT, "%.*s", (int)strcspn(*e->ret_thrown, "\n"),
		       *e->ret_thrown);
}

/* The text cannot be parsed: nothing has run. An error while it runs has been at some place. */
static bool is_unparsed(const json_t *details)
{
	const json_t *exception = json_object_get(details, "exception");
	return !strcmp(cdp_text(exception, "className"), "SyntaxError") &&
	       !strcmp(cdp_text(details, "text"), "Uncaught") &&
	       !json_object_get(details, "stackTrace");
}

static bool is_busy(struct tab *tab)
{
	const struct wait soon = { clock_ms() + PROBE_MS, -1, -1 };
	struct err err = { 0 };
	return tab_ask(tab, "Runtime.evaluate", json_pack("{s:s}", "expression", "1"), &soon,
		       &err) < 0 &&
	       err.code == ERR_SLOW;
}

/* A script that goes on for ever would take the page along. Where none runs, the next one would be ended. */
static void end_script(struct evaluation *e)
{
	if ((e->err->code == ERR_SLOW || e->err->code == ERR_GONE) && is_busy(e->tab))
		(void)cdp_post(e->tab->browser->cdp, e->tab->session, "Runtime.terminateExecution",
			       NULL);
	e->gone = frame_js_explain(e->err);
	if (e->err->code == ERR_SLOW)
		err_set(e->err, ERR_SLOW, "the script did not end in time");
}

static json_t *ask(struct evaluation *e, const char *method, json_t *params)
{
	json_t *answer = tab_call(e->tab, method, params, e->wait, e->err);
	if (!answer)
		end_script(e);
	return answer;
}

/* ---- running it ---- */

/* As an expression, and as statements, whose names do not outlive them; the last is for `return`. */
static const char *const forms[][2] = { { "(", "\n)" },
					{ "{", "\n}" },
					{ "(async () => {", "\n})()" } };

static json_t *run(struct evaluation *e, const char *const form[2])
{
	auto_free char *text = xasprintf("%s%s%s", form[0], e->expression, form[1]);
	return ask(e, "Runtime.evaluate",
		   json_pack("{s:s, s:b, s:b, s:b, s:s}", "expression", text, "replMode", 1,
			     "awaitPromise", 1, "userGesture", 1, "objectGroup", e->group));
}

static bool ends_statement(const char *text)
{
	size_t len = strlen(text);
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	return len && text[len - 1] == ';';
}

static bool is_return(const json_t *details)
{
	return strstr(cdp_text(json_object_get(details, "exception"), "description"),
		      "Illegal return") != NULL;
}

static const json_t *details_of(const json_t *answer)
{
	return json_object_get(answer, "exceptionDetails");
}

/* The answer of the first form that can be parsed, or else of the statements. */
static json_t *run_forms(struct evaluation *e)
{
	bool statements = ends_statement(e->expression);
	json_t *first = run(e, forms[statements]);
	if (!first || !is_unparsed(details_of(first)))
		return first;
	json_t *second = run(e, forms[!statements]);
	json_t *told = statements ? first : second;
	bool returns = second && is_return(details_of(told));
	bool parsed = !second || !is_unparsed(details_of(second));
	json_t *kept = parsed ? second : json_incref(told);
	if (parsed)
		json_incref(kept);
	json_decref(first);
	json_decref(second);
	if (!returns)
		return kept;
	json_decref(kept);
	return run(e, forms[2]);
}

/* ---- the result ---- */

static const char *result_script(const struct config *config, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char *text;
	auto_buf struct buf read = BUF(SCRIPT_MAX);
	pthread_mutex_lock(&lock);
	if (!text && share_js_read(config, "result", &read, err) == 0)
		text = TAKE(read.data);
	const char *result = text;
	pthread_mutex_unlock(&lock);
	return result;
}

/* Numbers that JSON has not: "NaN", "-0", "123n". */
static json_t *unusual(const char *text)
{
	char *end;
	long long whole = strtoll(text, &end, 10);
	if (end == text || strcmp(end, "n") != 0)
		return strcmp(text, "-0") ? json_null() : json_integer(0);
	return whole > -(1LL << 53) && whole < 1LL << 53 ? json_integer(whole)
							 : json_stringn(text, strlen(text) - 1);
}

/* NULL where the page has to be asked. */
static json_t *primitive(const json_t *result)
{
	json_t *value = json_object_get(result, "value");
	if (json_object_get(result, "objectId"))
		return NULL;
	if (json_object_get(result, "unserializableValue"))
		return unusual(cdp_text(result, "unserializableValue"));
	return value ? json_incref(value) : json_null();
}

static void release(struct evaluation *e)
{
	(void)cdp_post(e->tab->browser->cdp, e->tab->session, "Runtime.releaseObjectGroup",
		       json_pack("{s:s}", "objectGroup", e->group));
}

/* Calls a function on an object of the page. */
static json_t *call_on(struct evaluation *e, const json_t *object, const char *function,
		       json_t *arguments)
{
	return ask(e, "Runtime.callFunctionOn",
		   json_pack("{s:s, s:s, s:o, s:b, s:b, s:b}", "objectId",
			     cdp_text(object, "objectId"), "functionDeclaration", function,
			     "arguments", arguments, "returnByValue", 1, "awaitPromise", 1,
			     "userGesture", 1));
}

/* The value of an answer, which is taken. */
static json_t *value_of(struct evaluation *e, json_t *answer)
{
	json_t *value = NULL;
	if (details_of(answer))
		(void)put_thrown(e, details_of(answer));
	else if (answer)
		value = primitive(json_object_get(answer, "result"));
	if (answer && !value && !details_of(answer))
		err_set(e->err, ERR_INTERNAL, "the browser sent an answer without a value");
	json_decref(answer);
	return value;
}

static json_t *copy(struct evaluation *e, const json_t *object)
{
	const char *script = result_script(e->tab->browser->config, e->err);
	json_t *answer = script ? call_on(e, object, script, json_array()) : NULL;
	release(e);
	return value_of(e, answer);
}

static json_t *finish(struct evaluation *e, json_t *answer)
{
	const json_t *result = json_object_get(answer, "result");
	bool kept = answer && !details_of(answer) && json_object_get(result, "objectId");
	if (!kept)
		return value_of(e, answer);
	json_t *value = copy(e, result);
	json_decref(answer);
	return value;
}

json_t *evaluate(struct tab *tab, const char *expression, struct arena *arena,
		 const char **ret_thrown, const struct wait *wait, struct err *err)
{
	struct evaluation e = begin(tab, expression, arena, ret_thrown, wait, err);
	return finish(&e, run_forms(&e));
}

/* ---- until it is true ---- */

/* On a function that evaluates the expression. A page that nobody sees paints no frames. */
static const char poll_script[] = "async function (polling) {"
				  "  for (;;) {"
				  "    let value = await this();"
				  "    if (typeof value === 'function') value = await value();"
				  "    if (value) return [value];"
				  "    await new Promise((done) => {"
				  "      setTimeout(done, polling || 100);"
				  "      if (!polling) requestAnimationFrame(done);"
				  "    });"
				  "  }"
				  "}";

static const char *const poll_forms[][2] = { { "(async () => (", "\n))" },
					     { "(async () => {", "\n})" } };

static json_t *make_poller(struct evaluation *e)
{
	json_t *answer = run(e, poll_forms[0]);
	if (!answer || !is_unparsed(details_of(answer)))
		return answer;
	json_decref(answer);
	return run(e, poll_forms[1]);
}

static json_t *poll_page(struct evaluation *e, double polling_ms)
{
	json_t *made = make_poller(e);
	const json_t *poller = json_object_get(made, "result");
	if (!made || details_of(made))
		return value_of(e, made);
	json_t *answer =
		ask(e, "Runtime.callFunctionOn",
		    json_pack("{s:s, s:s, s:[{s:f}], s:b, s:b, s:s}", "objectId",
			      cdp_text(poller, "objectId"), "functionDeclaration", poll_script,
			      "arguments", "value", polling_ms, "awaitPromise", 1, "userGesture", 1,
			      "objectGroup", e->group));
	json_decref(made);
	return finish(e, answer);
}

json_t *evaluate_until(struct tab *tab, const char *expression, double polling_ms,
		       struct arena *arena, const char **ret_thrown, const struct wait *wait,
		       struct err *err)
{
	struct evaluation e = begin(tab, expression, arena, ret_thrown, wait, err);
	json_t *value = NULL;
	for (;;) {
		uint64_t documents = navigate_documents(tab);
		value = poll_page(&e, polling_ms);
		if (value || *ret_thrown || !e.gone ||
		    navigate_await_next(tab, documents, wait, err) < 0)
			break;
	}
	json_t *first = json_incref(json_array_get(value, 0));
	if (value && !first)
		err_set(err, ERR_CONFLICT,
			"the page has changed what JavaScript is made of: it "
			"became true, but its value cannot be read");
	json_decref(value);
	return first;
}
