#include "api/page_call.h"

#include "api/browser_lease.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "browser/browser.h"
#include "browser/requests.h"
#include "browser/tab.h"
#include "net/call.h"

/* What a call sets off may have come before the next one asks for it. */
static uint64_t mark_requests(struct tab *tab)
{
	uint64_t latest = requests_latest(tab);
	pthread_mutex_lock(&tab->lock);
	uint64_t before = tab->mark;
	tab->mark = latest;
	pthread_mutex_unlock(&tab->lock);
	return before;
}

int page_begin(struct call *call, int64_t timeout_ms, struct page_call *ret, struct err *err)
{
	ret->browser = browser_lease(call, &ret->wait, err);
	if (!ret->browser)
		return -1;
	if (timeout_ms == INT_ABSENT || timeout_ms == 0)
		timeout_ms = PAGE_TIMEOUT_MS;
	ret->wait = call_until(call, clock_ms() + timeout_ms);
	ret->tab = browser_lease_tab(call, ret->browser, &ret->wait, err);
	ret->changes = browser_changes(ret->browser);
	if (!ret->tab)
		return -1;
	ret->requests = mark_requests(ret->tab);
	return 0;
}

static void add_hint(struct call *call, struct page_call *page)
{
	if (!call->hint)
		call->hint = browser_news(page->browser, &page->changes, call->arena);
}

int page_reply(struct call *call, struct page_call *page, const void *data, struct err *err)
{
	add_hint(call, page);
	return call_reply(call, data, err);
}

int page_failed(struct call *call, struct page_call *page, const struct err *cause, struct err *err)
{
	add_hint(call, page);
	return browser_lease_failed(call, cause, err);
}

static void drop_json(void *value)
{
	json_decref(value);
}

void *page_decode(struct call *call, const struct schema *schema, json_t *value)
{
	struct problems ignored = { .json = BUF(4096) };
	void *to = arena_alloc(call->arena, schema->size);
	arena_defer(call->arena, drop_json, value);
	desc_decode(schema, 0, value, &(struct loc){ .key = "page" }, call->arena, to, &ignored);
	buf_done(&ignored.json);
	return to;
}
