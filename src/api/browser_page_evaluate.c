/* JavaScript in the page. */
#include <string.h>

#include "api/page_call.h"
#include "api/page_document.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/err.h"
#include "browser/evaluate.h"
#include "net/call.h"

struct page_evaluate {
	const char *expression;
	double timeout;
};
static const struct field evaluate_fields[] = {
	STR(page_evaluate, expression, REQUIRED,
	    "An expression, statements, of which the last one's value counts, or a function, which is "
	    "called. Promises are awaited, and `await` may be used.",
	    .alias = "script", .max_len = EVALUATE_MAX, .example = "\"document.title\""),
	PAGE_TIMEOUT_FIELD(page_evaluate),
};
static const struct schema evaluate_schema =
	SCHEMA(page_evaluate, "EvaluateRequest", evaluate_fields);
static const struct field evaluate_data = {
	.type = T_JSON,
	.help = "The value as plain data. Dates and URLs are text, elements are `ref: <Node>`; undefined, "
		"functions and NaN are null."
};

int page_reply_json(struct call *call, struct page_call *page, json_t *value,
		    const struct err *cause, struct err *err)
{
	int result = value ? page_reply(call, page, &value, err)
			   : page_failed(call, page, cause, err);
	json_decref(value);
	return result;
}

/* What a script threw has more to say than fits elsewhere: its stack. */
int page_threw(struct call *call, struct page_call *page, const char *thrown,
	       const struct err *cause, struct err *err)
{
	if (!thrown)
		return page_failed(call, page, cause, err);
	call->failed = true;
	call->message = thrown;
	return page_reply(call, page, NULL, err);
}

static int evaluate_script(struct call *call, const void *in, struct err *err)
{
	const struct page_evaluate *request = in;
	struct page_call page;
	struct err cause = { 0 };
	const char *thrown = NULL;
	if (page_begin(call, page_timeout_ms(request->timeout), &page, err) < 0)
		return -1;
	json_t *value =
		evaluate(page.tab, request->expression, call->arena, &thrown, &page.wait, &cause);
	if (!value)
		return page_threw(call, &page, thrown, &cause, err);
	return page_reply_json(call, &page, value, &cause, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/browser/page/evaluate", evaluate_script, &evaluate_schema, &evaluate_data,
	  "Run JavaScript in the page",
	  "Runs it in the page's own world, as its console does. What it throws is the message, with its "
	  "stack, and success is false. A script that is not done in time is ended." },
};
const struct route_group browser_page_evaluate_group = { "browser_page", "JavaScript in the page.",
							 routes, COUNT(routes) };
