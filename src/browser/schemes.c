#include "browser/schemes.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"

enum { SHOWN = 200, SCRIPT_MAX = 4096 };

#define WORLD   "aio-schemes"
#define BINDING "aioLedElsewhere"

/* What Chromium opens itself. */
static const char *const own[] = {
	"http",
	"https",
	"file",
	"data",
	"blob",
	"about",
	"javascript",
	"chrome",
	"chrome-extension",
	"devtools",
	"chrome-untrusted",
	"chrome-error",
	"filesystem",
	"view-source",
};

/* ---- addresses of callers ---- */

static int no_scheme(const char *url, struct err *err)
{
	return err_set(
		err, ERR_CONFLICT,
		"invalid URL '%.*s': expected one with a scheme, such as https://example.com/ "
		"or http://localhost:8000/",
		SHOWN, url);
}

/* "localhost:8000" and "example.com:80" have a port there. */
static bool is_port(const char *after)
{
	size_t digits = strspn(after, "0123456789");
	return digits && (!after[digits] || strchr("/?#", after[digits]));
}

int schemes_check(const char *url, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
	url += strspn(url, " \t\r\n");
	size_t n = strspn(url, letters);
	if (!isalpha((unsigned char)*url) || url[n] != ':')
		return no_scheme(url, err);
	for (size_t i = 0; i < COUNT(own); i++)
		if (strlen(own[i]) == n && !strncasecmp(url, own[i], n))
			return 0;
	if (is_port(url + n + 1))
		return no_scheme(url, err);
	return err_set(err, ERR_CONFLICT,
		       "cannot open '%.*s': '%.*s:' is not for a browser but for another program",
		       SHOWN, url, (int)(n < SHOWN ? n : SHOWN), url);
}

/* ---- where pages lead ---- */

/* In a world of its own, where the page cannot see it. The first listener has links that open a tab: they are
 * no navigation of this document. */
static const char script[] =
	"]);\n"
	"const elsewhere = (url, event) => {\n"
	"	const scheme = URL.canParse(url) ? new URL(url).protocol : '';\n"
	"	if (!scheme || own.has(scheme) || !event.cancelable)\n"
	"		return;\n"
	"	event.preventDefault();\n"
	"	" BINDING "(url);\n"
	"};\n"
	"globalThis.addEventListener('click', (event) => {\n"
	"	const link = event.composedPath().find((one) => one.localName === 'a' && one.target);\n"
	"	if (link)\n"
	"		elsewhere(String(link.href), event);\n"
	"}, true);\n"
	"globalThis.navigation?.addEventListener('navigate', (event) => elsewhere(event.destination.url, event));\n"
	"})();\n";

static void begin(struct browser *browser, const char *session)
{
	auto_buf struct buf text = BUF(SCRIPT_MAX);
	(void)buf_str(&text, "(() => { const own = new Set([");
	for (size_t i = 0; i < COUNT(own); i++)
		(void)buf_printf(&text, "'%s:',", own[i]);
	(void)buf_str(&text, script);
	(void)cdp_post(browser->cdp, session, "Runtime.addBinding",
		       json_pack("{s:s, s:s}", "name", BINDING, "executionContextName", WORLD));
	(void)cdp_post(browser->cdp, session, "Page.addScriptToEvaluateOnNewDocument",
		       json_pack("{s:s, s:s, s:b}", "source", text.data, "worldName", WORLD,
				 "runImmediately", 1));
}

static void led_elsewhere(struct tab *tab, const char *session, const json_t *params)
{
	(void)session;
	if (!strcmp(cdp_text(params, "name"), BINDING))
		browser_tell(tab->browser, "Not opened, because it is for another program: %.*s",
			     SHOWN, cdp_text(params, "payload"));
}

static const struct tab_event rows[] = {
	{ "Runtime.bindingCalled", led_elsewhere },
};
const struct tab_events scheme_events = { .rows = rows, .count = COUNT(rows), .begin = begin };
