/* restore.h - the tabs of a browser that is closed for being idle, shown again by the next one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct browser;
struct restore;
struct wait;

/* What it shows, to be freed by restore_free(); NULL: nothing but blank pages. */
struct restore *restore_save(struct browser *browser);
void restore_free(struct restore *restore); /* NULL is fine */

/* Waits for the tabs that the browser brings back, a few seconds at most: they have the order that they had
 * then, and the same one is current. It alone is sure to be loaded: others follow. */
void restore_await(const struct restore *restore, struct browser *browser, const struct wait *wait);
