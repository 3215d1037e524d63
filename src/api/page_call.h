/* page_call.h - a call on the page that the browser shows: its tab, how long it may take, and what
 * changed in the browser meanwhile. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/wait.h"

struct browser;
struct call;
struct err;
struct schema;
struct tab;

enum { PAGE_TIMEOUT_MS = 30000, PAGE_TIMEOUT_MAX_MS = 600000 };

struct page_call {
	struct browser *browser; /* leased until the call has been answered, and so is the tab */
	struct tab *tab;
	struct wait wait;  /* its deadline, counted from when the browser was there */
	uint64_t requests; /* of requests_latest(): when the call before this one began */
	uint64_t changes;  /* what had changed before it: page_reply() tells of the rest */
};

/* The browser, started if need be, and its current tab. timeout_ms: INT_ABSENT or 0 for
 * PAGE_TIMEOUT_MS. -1 with err: they cannot be had. */
int page_begin(struct call *call, int64_t timeout_ms, struct page_call *ret, struct err *err);

/* Answers with data, as call_reply() does. The hint says what changed: tabs, downloads, dialogs. */
int page_reply(struct call *call, struct page_call *page, const void *data, struct err *err);

/* Answers that it failed for this reason: browser_lease_failed(), with the same hint. */
int page_failed(struct call *call, struct page_call *page, const struct err *cause,
		struct err *err);

/* An object that the page library returned, which is taken, as a struct of that schema in the call's
 * arena. What is not as the schema has it is absent. */
void *page_decode(struct call *call, const struct schema *schema, json_t *value);
