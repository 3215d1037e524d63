/* storage.h - the state of the browser as Playwright keeps it: cookies, and the local storage of origins.
 *
 * Local storage is read and written by a page that no one sees, which shows an empty document of each
 * origin; nothing is asked of the network. Origins are those that frames have shown since the server
 * began, and those of states that were loaded. */
#pragma once
#include <jansson.h>

#include "base/wait.h"

struct browser;
struct err;

enum { STATE_MAX = 32 << 20 };

/* {"cookies": […], "origins": [{"origin", "localStorage": [{"name", "value"}]}]} */
json_t *storage_save(struct browser *browser, const struct wait *wait, struct err *err);

/* Sets the cookies, and makes local storage of the origins what it was. ERR_INVALID: it is not a state. */
int storage_load(struct browser *browser, const json_t *state, const struct wait *wait,
		 struct err *err);
