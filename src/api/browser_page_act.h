/* browser_page_act.h - what the calls that act on an element of the page share. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/page_call.h"
#include "base/desc.h"
#include "browser/act.h"

struct call;
struct err;

#define SELECTOR_HELP                                                                      \
	"What is meant: CSS (looking into open shadow roots), text=…, \"exact text\", "  \
	"role=button[name=\"Save\"], //xpath and the like, chained by >>, as Playwright "  \
	"writes them. The first match counts; the main frame is searched first, then the " \
	"others."
#define INDEX_HELP \
	"What is meant: the index that GET /v1/browser/page/elements gave it, instead of a selector."

enum { SELECTOR_BYTES_MAX = 40000, PAGE_TEXT_MAX = 1000000 };

/* The fields of a struct that has them by these names. */
#define SELECTOR_FIELD(s, flags) \
	STR(s, selector, flags, SELECTOR_HELP, .max_len = SELECTOR_BYTES_MAX)
#define INDEX_FIELD(s) INT(s, index, MIN, INDEX_HELP, .min = 0)
#define TIMEOUT_FIELD(s)                                                                  \
	NUM(s, timeout, ABOVE | MAX | TIMED,                                              \
	    "How many seconds to wait until the element is there and can be acted upon.", \
	    .def = "30", .min = 0, .max = 600)

/* page_begin() with a timeout in seconds, and a little more for the answer. */
int page_act_begin(struct call *call, double timeout, struct page_call *ret, struct err *err);

/* Answers with data, which is taken; NULL: with what `cause` says. */
int page_act_reply(struct call *call, struct page_call *page, json_t *data, const struct err *cause,
		   struct err *err);

/* 0: one of them is given, and it is *ret. -1 with err: none is. */
int page_target(const char *selector, int64_t index, struct act_target *ret, struct err *err);
