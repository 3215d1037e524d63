/* alert(), confirm(), prompt() and "leave this page?" of the current tab. */
#include <string.h>

#include "api/page_call.h"
#include "api/page_document.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/dialog.h"
#include "browser/tab.h"
#include "net/call.h"

enum { TEXT_MAX = 65536 };

struct page_dialog {
	const char *type, *message, *default_text, *url;
	double seconds_left;
};
static const struct field dialog_fields[] = {
	STR(page_dialog, type, 0, "`alert`, `confirm`, `prompt` or `beforeunload`."),
	STR(page_dialog, message, 0, "What it says."),
	STR(page_dialog, default_text, 0, "What a prompt suggests."),
	STR(page_dialog, url, 0, "The page that opened it."),
	NUM(page_dialog, seconds_left, 0, "When it is dismissed, if nobody answers it."),
};
static const struct schema dialog_schema =
	SCHEMA(page_dialog, "BrowserDialogResult", dialog_fields);
static const struct field dialog_data = { .type = T_OBJ,
					  .of = &dialog_schema,
					  .flags = NULLABLE,
					  .help = "The dialog; null: none is open." };

/* False: none is open. */
static bool describe(struct call *call, struct tab *tab, struct page_dialog *ret)
{
	pthread_mutex_lock(&tab->lock);
	const struct dialog *dialog = tab->dialog;
	if (dialog) {
		int64_t left = dialog->due_ms - clock_ms();
		*ret = (struct page_dialog){
			.type = arena_strdup(call->arena, dialog->kind),
			.message = arena_strdup(call->arena, dialog->message),
			.default_text = arena_strdup(call->arena, dialog->def),
			.url = arena_strdup(call->arena, dialog->url),
			.seconds_left = left > 0 ? (double)left / 1000 : 0,
		};
	}
	pthread_mutex_unlock(&tab->lock);
	return dialog != NULL;
}

static int get_dialog(struct call *call, const void *in, struct err *err)
{
	struct page_call page;
	struct page_dialog dialog;
	(void)in;
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	bool open = describe(call, page.tab, &dialog);
	return page_reply(call, &page, open ? &dialog : NULL, err);
}

struct dialog_action {
	const char *action, *text;
};
static const char *const actions[] = { "accept", "dismiss", NULL };
static const struct field action_fields[] = {
	ENUM(dialog_action, action, OPTIONAL,
	     "`accept` is OK, or Leave; `dismiss` Cancel, or Stay.", .def = "accept",
	     .choices = actions),
	STR(dialog_action, text, OPTIONAL,
	    "What a prompt is answered with; when absent, what it suggests.", .max_len = TEXT_MAX),
};
static const struct schema action_schema =
	SCHEMA(dialog_action, "BrowserDialogRequest", action_fields);

static int answer_dialog(struct call *call, const void *in, struct err *err)
{
	const struct dialog_action *request = in;
	struct page_call page;
	struct page_dialog dialog;
	struct err cause = { 0 };
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	bool open = describe(call, page.tab, &dialog);
	if (dialog_answer(page.tab, !strcmp(request->action, "accept"), request->text, &page.wait,
			  &cause) < 0)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, open ? &dialog : NULL, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/dialog", get_dialog, NULL, &dialog_data,
	  "The page's open dialog",
	  "While a dialog is open, the page stands still, and calls that need it fail. One that nobody "
	  "answers is dismissed after 30 seconds. One that asks whether to leave the page is accepted at "
	  "once." },
	{ "POST", "/v1/browser/page/dialog", answer_dialog, &action_schema, &dialog_data,
	  "Answer the page's dialog",
	  "Accepts or dismisses the open dialog, and returns it. The page then goes on." },
};
const struct route_group browser_page_dialog_group = { "browser_page", "Dialogs of the page.",
						       routes, COUNT(routes) };
