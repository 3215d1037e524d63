/* The browser as a whole: where it is, starting it anew, and its proxy. */
#include <string.h>

#include "api/browser_lease.h"
#include "api/cdp_address.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "browser/browser.h"
#include "browser/chromium.h"
#include "browser/intercept.h"
#include "browser/proxy_pac.h"
#include "browser/tab.h"
#include "config/config.h"
#include "desktop/display.h"
#include "desktop/x.h"
#include "net/call.h"
#include "net/server.h"
#include "service/service.h"

enum {
	LOOK_MS = 3000,
	LIST_MAX = 1000,
	LIST_TEXT_MAX = 1 << 20,
	LOCALE_MAX = 100,
	SIDE_MAX = 100000
};
#define PAC_TYPE "application/x-ns-proxy-autoconfig"

/* ---- info ---- */

struct viewport {
	int64_t width, height;
};
static const struct field viewport_fields[] = {
	INT(viewport, width, 0, "In pixels."),
	INT(viewport, height, 0, "In pixels."),
};
static const struct schema viewport_schema = SCHEMA(viewport, "BrowserViewport", viewport_fields);

struct browser_info {
	const char *user_agent, *cdp_url, *vnc_url, *cdp_ui_url;
	const struct viewport *viewport, *page_viewport;
};
static const struct field info_fields[] = {
	STR(browser_info, user_agent, 0, "The browser's User-Agent."),
	STR(browser_info, cdp_url, 0,
	    "WebSocket of its DevTools protocol, for Playwright's connect_over_cdp, Puppeteer and others. "
	    "Where credentials are needed, they are the API's."),
	STR(browser_info, vnc_url, 0, "A page that shows the desktop."),
	STR(browser_info, cdp_ui_url, NULLABLE, "A page of DevTools; there is none."),
	OBJ(browser_info, viewport, 0, "Size of the desktop.", .of = &viewport_schema),
	OBJ(browser_info, page_viewport, NULLABLE,
	    "Size of the page in the active tab; null where it does not answer, or has not begun: right "
	    "after the start of the browser.",
	    .of = &viewport_schema),
};
static const struct schema info_schema = SCHEMA(browser_info, "BrowserInfoResult", info_fields);
static const struct field info_data = { .type = T_OBJ, .of = &info_schema };

/* What a page says of itself is not to be trusted. */
static int64_t side(const json_t *value, size_t index)
{
	double number = json_number_value(json_array_get(value, index));
	return number >= 0 && number <= SIDE_MAX ? (int64_t)number : 0;
}

/* NULL where the page hangs, or a dialog is open; or has not begun: the first one takes longer than the
 * start of the browser, and whoever asks where that is need not wait for it. */
static const struct viewport *look_at_page(struct call *call, struct browser *browser,
					   const struct viewport *desktop, const struct wait *wait)
{
	struct tab *tab = browser_lease_tab(call, browser, wait, NULL);
	if (tab && !tab_has_begun(tab))
		return NULL;
	const struct wait soon = { clock_ms() + LOOK_MS < wait->until_ms ? clock_ms() + LOOK_MS
									 : wait->until_ms,
				   wait->client_fd, wait->stop_fd };
	if (tab)
		browser_await_fit(browser, tab, (int)desktop->width, (int)desktop->height, &soon);
	json_t *params = tab ? json_pack("{s:s, s:b}", "expression", "[innerWidth, innerHeight]",
					 "returnByValue", 1)
			     : NULL;
	json_t *answer = tab ? tab_call(tab, "Runtime.evaluate", params, &soon, NULL) : NULL;
	const json_t *value = json_object_get(json_object_get(answer, "result"), "value");
	struct viewport *size = arena_alloc(call->arena, sizeof *size);
	*size = (struct viewport){ side(value, 0), side(value, 1) };
	json_decref(answer);
	return size->width && size->height ? size : NULL;
}

/* It may have another size than it started with. */
static struct viewport look_at_desktop(const struct config *config, const struct wait *wait)
{
	struct x_size size = { (int)config->display_width, (int)config->display_height };
	struct service_run *desktop = display_use(wait, NULL);
	if (desktop && x_size(display_x(desktop), &size, wait, NULL) < 0)
		display_failed(desktop);
	service_release(desktop);
	return (struct viewport){ size.width, size.height };
}

static int get_info(struct call *call, const void *in, struct err *err)
{
	call->began = 0;
	const struct config *config = call->server->config;
	struct wait wait;
	struct browser *browser = browser_lease(call, &wait, err);
	(void)in;
	if (!browser)
		return -1;
	const struct viewport desktop = look_at_desktop(config, &wait);
	const struct browser_info info = {
		.user_agent = browser_agent(browser),
		.cdp_url = cdp_address(call, arena_printf(call->arena, "/devtools/browser/%s",
							  browser_id(browser))),
		.vnc_url = arena_printf(call->arena, "%s/vnc/index.html?autoconnect=true",
					call->base_url),
		.viewport = &desktop,
		.page_viewport = look_at_page(call, browser, &desktop, &wait),
	};
	return call_reply(call, &info, err);
}

/* ---- restart ---- */

static const char *const modes[] = { "soft", "hard", NULL };
struct restart {
	const char *mode;
	struct list url_blocklist, url_allowlist;
	enum tri allow_file_selection_dialogs;
	const char *locale;
};
static const struct field restart_fields[] = {
	ENUM(restart, mode, OPTIONAL,
	     "`hard` ends the browser and starts it again; `soft` leaves it running, and attaches to its "
	     "tabs again.",
	     .def = "hard", .choices = modes),
	LIST(restart, url_blocklist, OPTIONAL,
	     "From now on these URLs cannot be opened, as Chromium's policy URLBlocklist has them; absent: "
	     "as before. In a box only.",
	     .item = T_STR, .max_len = LIST_MAX, .example = "[\"example.com\"]"),
	LIST(restart, url_allowlist, OPTIONAL,
	     "Exceptions from that, as Chromium's policy URLAllowlist has them; absent: as before.",
	     .item = T_STR, .max_len = LIST_MAX, .example = "[\"docs.example.com\"]"),
	TRI(restart, allow_file_selection_dialogs, OPTIONAL,
	    "Whether pages may open a file picker on the desktop; absent or null: as the server was "
	    "started."),
	STR(restart, locale, OPTIONAL,
	    "The language of the browser and of what it asks pages for, such as de-DE; absent: as before.",
	    .max_len = LOCALE_MAX),
};
static const struct schema restart_schema = SCHEMA(restart, "RestartRequest", restart_fields);

/* *ret stays as it is where the list is to. */
static int list_text(struct call *call, const char *name, const struct list *list, const char **ret,
		     struct err *err)
{
	const char *const *items = list->items;
	struct jw jw;
	if (items && !list->count)
		*ret = "";
	if (!items || !list->count)
		return 0;
	jw_init(&jw, LIST_TEXT_MAX);
	jw_open(&jw, '[');
	for (size_t i = 0; i < list->count; i++)
		jw_str(&jw, items[i]);
	jw_close(&jw, ']');
	bool fits = !jw_failed(&jw);
	if (fits)
		*ret = arena_strdup(call->arena, jw.out.data);
	jw_done(&jw);
	return fits ? 0
		    : err_set(err, ERR_BAD_REQUEST, "%s is too long: at most %d KiB in all", name,
			      LIST_TEXT_MAX >> 10);
}

/* Nothing that would become another argument, or a path. */
static int check_locale(const char *locale, struct err *err)
{
	if (!locale ||
	    strspn(locale, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			   "-_,;=.") == strlen(locale))
		return 0;
	return err_set(err, ERR_BAD_REQUEST, "invalid locale '%s': expected one such as de-DE",
		       locale);
}

static int restart_hard(struct call *call, const struct restart *request, struct err *err)
{
	static const char *const dialogs[] = { "false", "true", "" };
	struct chromium_policy policy = {
		.lang = request->locale,
		.dialogs = dialogs[request->allow_file_selection_dialogs],
	};
	if (list_text(call, "url_blocklist", &request->url_blocklist, &policy.blocked, err) < 0 ||
	    list_text(call, "url_allowlist", &request->url_allowlist, &policy.allowed, err) < 0 ||
	    check_locale(request->locale, err) < 0 || chromium_set_policy(&policy, err) < 0)
		return -1;
	intercept_forget();
	chromium_restart("a client restarts it");
	return 0;
}

static int restart(struct call *call, const void *in, struct err *err)
{
	const struct restart *request = in;
	bool soft = !strcmp(request->mode, "soft");
	call->began = 0; /* what the browser itself looks for when it starts is of no interest */
	struct wait wait;
	struct err cause;
	if (!soft && restart_hard(call, request, &cause) < 0)
		return browser_lease_failed(call, &cause, err);
	struct browser *browser = browser_lease(call, &wait, err);
	if (!browser)
		return -1;
	if (soft && browser_attach_again(browser, &wait, &cause) < 0)
		return browser_lease_failed(call, &cause, err);
	call->message = soft ? "The browser runs on, and all its tabs are attached again"
			     : "The browser was restarted";
	return call_reply(call, NULL, err);
}

/* ---- its proxy ---- */

static int get_pac(struct call *call, const void *in, struct err *err)
{
	const char *text = proxy_pac(call->server->config, call->arena);
	(void)in;
	return call_text(call, PAC_TYPE, text, strlen(text), err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/info", get_info, NULL, &info_data, "Describe the browser",
	  "Where its DevTools protocol and its desktop are, and how large it is. Starts the browser if "
	  "need be.",
	  URLS },
	{ "POST", "/v1/browser/restart", restart, &restart_schema, NULL, "Restart the browser",
	  "The profile is kept: cookies, storage, downloads. The body may be null." },
	{ "GET", "/v1/browser/proxy.pac", get_pac, .summary = "Read the proxy configuration",
	  .help = "The PAC file of PROXY_SERVER, PROXY_INCLUDE and PROXY_EXCLUDE, which the browser goes "
		  "by; DIRECT where there is no proxy.",
	  .flags = BARE, .type = PAC_TYPE },
};
const struct route_group browser_group = { "browser", "The browser as a whole.", routes,
					   COUNT(routes) };
