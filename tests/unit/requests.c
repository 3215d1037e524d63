/* The log of a tab's requests, as its events fill it. */
#include "browser/requests.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "tap.h"

static struct browser browser = { .refs = 1, .lock = PTHREAD_MUTEX_INITIALIZER };

static struct tab *begin(void)
{
	return tab_new(&browser, "T", "S", "", "");
}

/* An event of the tab, whose params are taken. */
static void event(struct tab *tab, const char *method, json_t *params)
{
	if (!params)
		abort();
	tab_apply(tab, "S", method, params);
	json_decref(params);
}

static void ask(struct tab *tab, int number)
{
	auto_free char *id = xasprintf("r%d", number);
	event(tab, "Network.requestWillBeSent",
	      json_pack("{s:s, s:s, s:s, s:{s:s, s:s}}", "requestId", id, "frameId", "T", "type",
			"Fetch", "request", "url", "http://a/", "method", "GET"));
}

static void answer(struct tab *tab, int number, const char *status_text, const char *header)
{
	auto_free char *id = xasprintf("r%d", number);
	event(tab, "Network.responseReceived",
	      json_pack("{s:s, s:s, s:{s:i, s:s, s:{s:s}}}", "requestId", id, "type", "Fetch",
			"response", "status", 200, "statusText", status_text, "headers", "x",
			header));
}

static size_t bytes_of(const struct request_info *list, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += strlen(list[i].response_headers);
	return bytes;
}

/* Responses to requests that were all asked for before: their headers count, too. */
static void headers_are_bounded(void)
{
	enum { COUNT_ = 900, HEADER = 200000 };
	struct arena arena = { 0 };
	struct request_info *list;
	struct tab *tab = begin();
	auto_free char *header = xcalloc(1, HEADER + 1);
	memset(header, 'x', HEADER);
	for (int i = 0; i < COUNT_; i++)
		ask(tab, i);
	CHECK(requests_list(tab, NULL, REQUESTS_MAX, &arena, &list) == COUNT_);
	CHECK(tab->in_flight == COUNT_);
	for (int i = 0; i < COUNT_; i++)
		answer(tab, i, "OK", header);
	size_t count = requests_list(tab, NULL, REQUESTS_MAX, &arena, &list);
	CHECK(count > 0 && bytes_of(list, count) <= 8 << 20);
	CHECK_STR(list[count - 1].id, "r899");
	CHECK(list[count - 1].status == 200);
	arena_done(&arena);
	tab_release(tab);
}

/* What is cut is still UTF-8. */
static void texts_are_cut_between_characters(void)
{
	struct arena arena = { 0 };
	struct request_info *list;
	struct tab *tab = begin();
	char text[401] = "x";
	for (size_t i = 1; i + 2 < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	ask(tab, 1);
	answer(tab, 1, text, "");
	CHECK(requests_list(tab, NULL, REQUESTS_MAX, &arena, &list) == 1);
	json_t *json = json_string(list[0].status_text); /* NULL: it is not UTF-8 */
	CHECK(json != NULL && json_string_length(json) == 255);
	json_decref(json);
	arena_done(&arena);
	tab_release(tab);
}

int main(void)
{
	headers_are_bounded();
	texts_are_cut_between_characters();
	return tap_done();
}
