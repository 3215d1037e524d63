#include "browser/tab_events.h"

#include <string.h>

#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"

static const struct tab_events *const tables[] = {
	&frame_events,     &request_events, &console_events, &dialog_events,
	&intercept_events, &storage_events, &scheme_events,  &screencast_events,
};

void tab_enable(struct browser *browser, const char *session)
{
	struct cdp *cdp = browser->cdp;
	for (size_t i = 0; i < COUNT(tables); i++)
		for (const struct tab_enable *row = tables[i]->enable; row && row->method; row++)
			(void)cdp_post(cdp, session, row->method,
				       row->params ? json_loads(row->params, 0, NULL) : NULL);
	for (size_t i = 0; i < COUNT(tables); i++)
		if (tables[i]->begin)
			tables[i]->begin(browser, session);
	(void)cdp_post_heard(cdp, session, "Page.getFrameTree", NULL);
	(void)cdp_post(cdp, session, "Target.setAutoAttach",
		       json_pack("{s:b, s:b, s:b, s:[{s:s}, {s:b}]}", "autoAttach", 1,
				 "waitForDebuggerOnStart", 1, "flatten", 1, "filter", "type",
				 "iframe", "exclude", 1));
	if (!browser->file_dialogs)
		(void)cdp_post(cdp, session, "Page.setInterceptFileChooserDialog",
			       json_pack("{s:b, s:b}", "enabled", 1, "cancel", 1));
	(void)cdp_post(cdp, session, "Runtime.runIfWaitingForDebugger", NULL);
}

void tab_apply(struct tab *tab, const char *session, const char *method, const json_t *params)
{
	bool any = false;
	pthread_mutex_lock(&tab->lock);
	for (size_t i = 0; i < COUNT(tables); i++)
		for (size_t j = 0; j < tables[i]->count; j++)
			if (!strcmp(tables[i]->rows[j].method, method)) {
				tables[i]->rows[j].apply(tab, session, params);
				any = true;
			}
	if (any)
		waiter_wake(tab->waiters);
	pthread_mutex_unlock(&tab->lock);
}

void tab_free_kept(struct tab *tab)
{
	for (size_t i = 0; i < COUNT(tables); i++)
		if (tables[i]->free)
			tables[i]->free(tab);
}
