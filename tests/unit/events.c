#include "fs/file_events.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tap.h"

enum { WINDOW = 100 };

static struct file_events *events;
static int64_t now;

static void add(enum event_type type, const char *path, const char *old_path)
{
	file_events_add(events, type, *path && path[strlen(path) - 1] == '/', path, old_path, now,
			(double)now);
}

/* All that is told after the window, as "C a,W b,R a>b". */
static const char *told(void)
{
	static const char letters[] = "CWDRMO";
	static char text[4096];
	size_t len = 0;
	text[0] = 0;
	now += WINDOW;
	for (struct file_event *e; (e = file_events_take(events, now));) {
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%c %s%s%s",
					len ? "," : "", letters[e->type],
					e->old_path ? e->old_path : "", e->old_path ? ">" : "",
					e->path);
		file_events_keep(events, e);
	}
	return text;
}

static void pass(void)
{
	now += WINDOW;
	for (struct file_event *e; (e = file_events_take(events, now));)
		file_events_keep(events, e);
}

static void merging(void)
{
	events = file_events_new(WINDOW);
	add(EVENT_CREATE, "a", NULL);
	add(EVENT_WRITE, "a", NULL);
	add(EVENT_CHMOD, "a", NULL);
	CHECK_STR(told(), "C a");
	add(EVENT_WRITE, "a", NULL);
	add(EVENT_WRITE, "b", NULL);
	add(EVENT_WRITE, "a", NULL);
	CHECK_STR(told(), "W a,W b");
	add(EVENT_CHMOD, "a", NULL);
	add(EVENT_WRITE, "a", NULL);
	add(EVENT_CHMOD, "b", NULL);
	add(EVENT_CHMOD, "b", NULL);
	CHECK_STR(told(), "W a,M b");
	add(EVENT_WRITE, "a", NULL);
	add(EVENT_REMOVE, "a", NULL);
	CHECK_STR(told(), "D a");
	add(EVENT_CREATE, "a", NULL);
	add(EVENT_REMOVE, "a", NULL);
	add(EVENT_CREATE, "a", NULL);
	add(EVENT_CREATE, "a", NULL);
	CHECK_STR(told(), "C a,D a,C a");
	add(EVENT_OVERFLOW, "", NULL);
	add(EVENT_OVERFLOW, "", NULL);
	CHECK_STR(told(), "O ");
	CHECK_STR(told(), "");
	CHECK(file_events_due(events) == INT64_MAX);
	file_events_free(events);
}

/* What has a name now may not be what had it before. */
static void renames(void)
{
	events = file_events_new(WINDOW);
	for (int i = 0; i < 2; i++) {
		add(EVENT_CREATE, "tmp", NULL);
		add(EVENT_WRITE, "tmp", NULL);
		add(EVENT_RENAME, "doc", "tmp");
	}
	CHECK_STR(told(), "C tmp,R tmp>doc,C tmp,R tmp>doc");
	add(EVENT_WRITE, "doc", NULL);
	add(EVENT_RENAME, "doc", "x");
	add(EVENT_WRITE, "doc", NULL);
	CHECK_STR(told(), "W doc,R x>doc,W doc");
	add(EVENT_CREATE, "d/f", NULL);
	add(EVENT_RENAME, "e/", "d/");
	add(EVENT_CREATE, "d/f", NULL);
	CHECK_STR(told(), "C d/f,R d/>e/,C d/f");
	add(EVENT_CREATE, "d/f", NULL);
	add(EVENT_REMOVE, "d/", NULL);
	add(EVENT_CREATE, "d/f", NULL);
	CHECK_STR(told(), "C d/f,D d/,C d/f");
	file_events_free(events);
}

static void order(void)
{
	events = file_events_new(WINDOW);
	add(EVENT_CREATE, "a", NULL);
	now += 60;
	add(EVENT_CREATE, "b", NULL);
	add(EVENT_WRITE, "a", NULL); /* does not put off what waits */
	CHECK(file_events_due(events) == now + 40);
	now += 40;
	struct file_event *e = file_events_take(events, now);
	CHECK(e && !strcmp(e->path, "a") && e->timestamp == (double)(now - 40));
	file_events_keep(events, e);
	CHECK(!file_events_take(events, now));
	CHECK_STR(told(), "C b");
	add(EVENT_CREATE, "left", NULL);
	file_events_free(events); /* with one that waits */
}

static void pages(void)
{
	struct arena arena = { 0 };
	struct file_events_page page;
	events = file_events_new(WINDOW);
	file_events_page(events, 0, 10, false, &arena, &page);
	CHECK(page.count == 0 && page.cursor == 0 && !page.overflow);
	add(EVENT_CREATE, "a", NULL);
	add(EVENT_OVERFLOW, "", NULL);
	add(EVENT_RENAME, "b", "a");
	pass();
	file_events_page(events, 0, 10, false, &arena, &page);
	CHECK(page.count == 2 && page.cursor == 3 && page.overflow);
	CHECK(page.events[0].seq == 1 && page.events[1].seq == 3);
	CHECK_STR(page.events[1].old_path, "a");
	file_events_page(events, 0, 1, false, &arena, &page);
	CHECK(page.count == 1 && page.cursor == 1 && !page.overflow);
	file_events_page(events, 1, 10, true, &arena, &page);
	CHECK(page.count == 2 && page.events[0].type == EVENT_OVERFLOW && !page.overflow);
	file_events_page(events, 2, 10, false, &arena, &page);
	CHECK(page.count == 1 && !page.overflow);
	file_events_page(events, 3, 10, false, &arena, &page);
	CHECK(page.count == 0 && page.cursor == 3 && !page.overflow);
	file_events_page(events, 99, 10, false, &arena, &page);
	CHECK(page.count == 0 && page.cursor == 3 && page.overflow);
	arena_done(&arena);
	file_events_free(events);
}

static void ring(void)
{
	struct arena arena = { 0 };
	struct file_events_page page;
	events = file_events_new(WINDOW);
	for (int i = 0; i < EVENTS_RING_MAX + 10; i++) {
		char name[32];
		snprintf(name, sizeof name, "f%d", i);
		add(EVENT_CREATE, name, NULL);
		if (i % 1000 == 999)
			pass();
	}
	pass();
	CHECK(file_events_last(events) == EVENTS_RING_MAX + 10);
	file_events_page(events, 0, 1, false, &arena, &page);
	CHECK(page.overflow && page.count == 1 && page.events[0].seq == 11);
	CHECK_STR(page.events[0].path, "f10");
	file_events_page(events, 10, EVENTS_RING_MAX, false, &arena, &page);
	CHECK(!page.overflow && page.count == EVENTS_RING_MAX);
	file_events_page(events, 9, 1, false, &arena, &page);
	CHECK(page.overflow);
	arena_done(&arena);
	file_events_free(events);
}

/* Long names push out old ones sooner. */
static void text(void)
{
	struct arena arena = { 0 };
	struct file_events_page page;
	char name[4000];
	events = file_events_new(WINDOW);
	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = 0;
	for (int i = 0; i < 6000; i++) {
		name[snprintf(name, 10, "%d", i)] = 'y';
		add(EVENT_CREATE, name, NULL);
		if (i % 500 == 499)
			pass();
	}
	pass();
	file_events_page(events, 0, 1, false, &arena, &page);
	CHECK(page.overflow && page.events[0].seq > 1000 && file_events_last(events) == 6000);
	arena_done(&arena);
	file_events_free(events);
}

int main(void)
{
	merging();
	renames();
	order();
	pages();
	ring();
	text();
	return tap_done();
}
