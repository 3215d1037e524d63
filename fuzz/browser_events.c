/* What a browser might report of itself, its tabs and their frames, in any order: one message on a line. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_message.h"
#include "config/config.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static int in = -1, out[2];
static const struct config config = { .home = "." };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_setup(LOG_ERROR, LOG_TEXT);
	in = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return in < 0 || pipe2(out, O_CLOEXEC) < 0 ? -1 : 0;
}

static void ignore(void *arg, const char *session, const char *method, const json_t *params)
{
	(void)arg;
	(void)session;
	(void)method;
	(void)params;
}

static struct browser *make(void)
{
	const struct cdp_user user = { .event = ignore };
	struct browser *browser = xcalloc(1, sizeof *browser);
	browser->refs = 1;
	browser->config = &config;
	browser->due_ms = INT64_MAX;
	browser->opened = true;
	browser->downloads_dir = xstrdup("/d");
	pthread_mutex_init(&browser->lock, NULL);
	browser->cdp = cdp_new(in, out[0], &user, NULL);
	if (!browser->cdp)
		abort();
	return browser;
}

static void take(struct browser *browser, char *line, size_t len)
{
	struct cdp_message m;
	if (cdp_message_read(line, len, &m, NULL) == 0 && m.method)
		browser_event(browser, m.session, m.method, m.params);
	cdp_message_done(&m);
}

/* A tab has a main frame, and each frame but that is below another; whoever it says. */
static void check(struct browser *browser)
{
	struct arena arena = { 0 };
	struct tab **tabs;
	uint64_t since = 0;
	size_t count = browser_tabs(browser, &arena, &tabs);
	if (count > TABS_MAX || browser->session_count > SESSIONS_MAX)
		abort();
	for (size_t i = 0; i < count; i++) {
		size_t frames = 0;
		for (const struct frame *f = tabs[i]->frames; f; f = f->next)
			frames += f->url && f->name && *f->session;
		if (!frames || frames > FRAMES_MAX || !tabs[i]->url || !tabs[i]->title)
			abort();
		tab_release(tabs[i]);
	}
	(void)browser_news(browser, &since, &arena);
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const char first[] =
		"{\"method\":\"Target.attachedToTarget\",\"params\":{\"sessionId\":\"S\","
		"\"targetInfo\":{\"targetId\":\"T\",\"type\":\"page\",\"url\":\"about:blank\"}}}";
	struct browser *browser = make();
	auto_free char *text = xmalloc(size + sizeof first);
	memcpy(text, first, sizeof first);
	take(browser, text, sizeof first - 1);
	memcpy(text, input, size);
	text[size] = 0;
	for (char *at = text, *end = text + size; at < end;) {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		take(browser, at, (size_t)((stop ? stop : end) - at));
		at = stop ? stop + 1 : end;
	}
	(void)dialogs_due(browser);
	check(browser);
	browser_free(browser);
	return 0;
}
