/* The browser as it is seen in its messages: a peer on two pipes says what Chromium would. */
#include "browser/browser.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/act.h"
#include "browser/browser_state.h"
#include "browser/cdp_params.h"
#include "browser/dialog.h"
#include "browser/evaluate.h"
#include "browser/navigate.h"
#include "config/config.h"
#include "tap.h"

/* Answers every call with {}, but for those that it knows; what is heard is kept for heard(). */
struct chrome {
	int in[2], out[2];
	pthread_t thread;
	pthread_mutex_t lock, out_lock;
	pthread_cond_t more;
	char *log; /* "method session\n" of each message */
};

static struct chrome chrome;
static struct browser *browser;
static const struct config config = { .user = "root", .home = "." };

static struct wait seconds(int64_t count)
{
	return (struct wait){ clock_ms() + count * 1000, -1, -1 };
}

static void say_all(const char *text, size_t len)
{
	pthread_mutex_lock(&chrome.out_lock);
	while (len && chrome.out[1] >= 0) {
		ssize_t n = write(chrome.out[1], text, len);
		if (n <= 0)
			abort();
		text += n;
		len -= (size_t)n;
	}
	pthread_mutex_unlock(&chrome.out_lock);
}

static void say(const char *text)
{
	say_all(text, strlen(text) + 1);
}

/* At once, so that the second is there when the first is taken. The first is freed. */
static void say_two(char *first, const char *second)
{
	size_t one = strlen(first) + 1, two = strlen(second) + 1;
	char *both = xcalloc(1, one + two);
	memcpy(both, first, one);
	memcpy(both + one, second, two);
	say_all(both, one + two);
	free(first);
	free(both);
}

static void stop_talking(void)
{
	pthread_mutex_lock(&chrome.out_lock);
	own_close(&chrome.out[1]);
	chrome.out[1] = -1;
	pthread_mutex_unlock(&chrome.out_lock);
}

#define EVENT(session, method, params) \
	say("{\"method\":\"" method "\",\"params\":{" params "},\"sessionId\":\"" session "\"}")
#define EVENT_OF_BROWSER(method, params) say("{\"method\":\"" method "\",\"params\":{" params "}}")
#define PAGE_TARGET(id, url)                                                       \
	"\"targetInfo\":{\"targetId\":\"" id "\",\"type\":\"page\",\"url\":\"" url \
	"\",\"title\":\"\"},\"waitingForDebugger\":false"
#define ATTACH(session, id, url)                    \
	EVENT_OF_BROWSER("Target.attachedToTarget", \
			 "\"sessionId\":\"" session "\"," PAGE_TARGET(id, url))

static void reply(const json_t *message)
{
	const char *method = cdp_text(message, "method"), *result = "";
	const char *url = cdp_text(json_object_get(message, "params"), "url");
	if (!strcmp(method, "Browser.getVersion"))
		result = "\"product\":\"Chrome/1\",\"userAgent\":\"UA\"";
	else if (!strcmp(method, "Target.getTargetInfo"))
		result = "\"targetInfo\":{\"targetId\":\"B\"}";
	else if (!strcmp(method, "Target.createTarget"))
		result = "\"targetId\":\"T2\"";
	else if (!strcmp(method, "Page.getFrameTree") &&
		 !strcmp(cdp_text(message, "sessionId"), "S2"))
		result =
			"\"frameTree\":{\"frame\":{\"id\":\"T2\",\"loaderId\":\"L2\",\"url\":\"about:blank\"}}";
	else if (!strcmp(method, "Runtime.evaluate"))
		result = "\"result\":{\"objectId\":\"O\"}";
	else if (!strcmp(method, "Runtime.callFunctionOn")) /* whatever it is asked for */
		result = "\"result\":{\"value\":7}";
	if (!strcmp(method, "Page.createIsolatedWorld"))
		EVENT("S1", "Runtime.executionContextCreated",
		      "\"context\":{\"id\":5,\"uniqueId\":\"W\",\"name\":\"aio\",\"auxData\":"
		      "{\"frameId\":\"T1\"}}");
	if (!strcmp(method, "Target.setAutoAttach") && !*cdp_text(message, "sessionId"))
		ATTACH("S1", "T1", "about:blank");
	if (!strcmp(method, "Target.createTarget"))
		ATTACH("S2", "T2", "about:blank");
	if (!strcmp(method, "Page.navigate") && strstr(url, "crash")) {
		say_two(xasprintf("{\"id\":%lld,\"result\":{\"loaderId\":\"L9\"}}",
				  (long long)cdp_int(message, "id")),
			"{\"method\":\"Inspector.targetCrashed\",\"params\":{},\"sessionId\":\"S1\"}");
		return;
	}
	auto_free char *text = xasprintf("{\"id\":%lld,\"result\":{%s}}",
					 (long long)cdp_int(message, "id"), result);
	say(text);
}

static void hear(const char *text)
{
	json_t *message = json_loads(text, 0, NULL);
	reply(message);
	pthread_mutex_lock(&chrome.lock);
	char *log = xasprintf("%s%s %s\n", chrome.log, cdp_text(message, "method"),
			      cdp_text(message, "sessionId"));
	free(chrome.log);
	chrome.log = log;
	pthread_cond_broadcast(&chrome.more);
	pthread_mutex_unlock(&chrome.lock);
	json_decref(message);
}

static void *run_chrome(void *unused)
{
	static char text[1 << 20];
	size_t len = 0;
	(void)unused;
	while (read(chrome.in[0], text + len, 1) == 1 && len < sizeof text - 1) {
		if (text[len++])
			continue;
		hear(text);
		len = 0;
	}
	return NULL;
}

/* Whether it has been asked that, now or soon. */
static bool heard(const char *line)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	pthread_mutex_lock(&chrome.lock);
	while (!strstr(chrome.log, line) &&
	       pthread_cond_timedwait(&chrome.more, &chrome.lock, &until) == 0)
		;
	bool found = strstr(chrome.log, line);
	pthread_mutex_unlock(&chrome.lock);
	return found;
}

static void forget(void)
{
	pthread_mutex_lock(&chrome.lock);
	*chrome.log = 0;
	pthread_mutex_unlock(&chrome.lock);
}

static void begin(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	chrome = (struct chrome){ .lock = PTHREAD_MUTEX_INITIALIZER,
				  .out_lock = PTHREAD_MUTEX_INITIALIZER,
				  .more = PTHREAD_COND_INITIALIZER,
				  .log = xstrdup("") };
	if (pipe2(chrome.in, O_CLOEXEC) < 0 || pipe2(chrome.out, O_CLOEXEC) < 0 ||
	    pthread_create(&chrome.thread, NULL, run_chrome, NULL) != 0)
		abort();
	browser = browser_open(chrome.in[1], chrome.out[0], &config, true, &wait, &err);
	if (!CHECK(browser != NULL))
		abort();
}

static void finish(void)
{
	browser_free(browser);
	stop_talking();
	close(chrome.in[1]);
	pthread_join(chrome.thread, NULL);
	close(chrome.in[0]);
	own_close(&chrome.out[0]);
	free(chrome.log);
}

static struct tab *current(void)
{
	const struct wait wait = seconds(20);
	return browser_tab(browser, &wait, NULL);
}

/* ---- waiting for what an event does ---- */

struct frame_wish {
	const char *id, *url, *session;
	unsigned reached;
	int64_t world;
};

static bool frame_is(struct tab *tab, void *arg, int64_t *again)
{
	const struct frame_wish *wish = arg;
	const struct frame *frame = wish->id ? tab_frame(tab, wish->id) : tab_main_frame(tab);
	(void)again;
	if (!frame || (wish->reached && frame->reached != wish->reached))
		return false;
	return (!wish->url || !strcmp(frame->url, wish->url)) &&
	       (!wish->session || !strcmp(frame->session, wish->session)) &&
	       (!wish->world || frame->main_world == wish->world);
}

static bool frame_comes(struct tab *tab, struct frame_wish wish)
{
	const struct wait wait = seconds(20);
	return tab_wait(tab, frame_is, &wish, &wait, NULL) == 0;
}

static bool frame_is_gone(struct tab *tab, void *arg, int64_t *again)
{
	(void)again;
	return !tab_frame(tab, arg);
}

static bool has_dialog(struct tab *tab, void *arg, int64_t *again)
{
	(void)again;
	return (tab->dialog != NULL) == *(bool *)arg;
}

static bool dialog_comes(struct tab *tab, bool is)
{
	const struct wait wait = seconds(20);
	return tab_wait(tab, has_dialog, &is, &wait, NULL) == 0;
}

/* ---- tests ---- */

static void opens(void)
{
	struct arena arena = { 0 };
	struct tab **tabs;
	begin();
	CHECK_STR(browser_version(browser), "Chrome/1");
	CHECK_STR(browser_agent(browser), "UA");
	CHECK_STR(browser_id(browser), "B");
	CHECK(heard("Page.enable S1") && heard("Runtime.runIfWaitingForDebugger S1"));
	CHECK(browser_tabs(browser, &arena, &tabs) == 1);
	CHECK_STR(tabs[0]->target, "T1");
	tab_release(tabs[0]);
	arena_done(&arena);
	finish();
}

static void documents(void)
{
	begin();
	struct tab *tab = current();
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"T1\",\"loaderId\":\"L1\",\"url\":\"http://a/\","
	      "\"urlFragment\":\"#x\"}");
	CHECK(frame_comes(tab, (struct frame_wish){ .url = "http://a/#x", .reached = TAB_COMMIT }));
	EVENT("S1", "Page.lifecycleEvent",
	      "\"frameId\":\"T1\",\"loaderId\":\"OLD\",\"name\":\"load\"");
	EVENT("S1", "Page.lifecycleEvent",
	      "\"frameId\":\"T1\",\"loaderId\":\"L1\",\"name\":\"DOMContentLoaded\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .reached = TAB_COMMIT | TAB_DOM }));
	EVENT("S1", "Page.navigatedWithinDocument", "\"frameId\":\"T1\",\"url\":\"http://a/#y\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .url = "http://a/#y" }));
	pthread_mutex_lock(&tab->lock);
	CHECK_STR(tab->url, "http://a/#y");
	CHECK(tab->frames->documents == 1);
	pthread_mutex_unlock(&tab->lock);
	EVENT("S1", "Runtime.executionContextCreated",
	      "\"context\":{\"id\":3,\"uniqueId\":\"u\",\"name\":\"\",\"auxData\":"
	      "{\"isDefault\":true,\"frameId\":\"T1\"}}");
	CHECK(frame_comes(tab, (struct frame_wish){ .world = 3 }));
	tab_release(tab);
	finish();
}

/* One moves to a process of its own, and back; and goes with all below it. */
static void frames(void)
{
	const struct wait wait = seconds(20);
	begin();
	struct tab *tab = current();
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"F\",\"parentFrameId\":\"T1\"");
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"G\",\"parentFrameId\":\"F\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "G", .session = "S1" }));
	EVENT("S1", "Page.frameDetached", "\"frameId\":\"F\",\"reason\":\"swap\"");
	EVENT("S1", "Target.attachedToTarget",
	      "\"sessionId\":\"SF\",\"targetInfo\":{\"targetId\":\"F\",\"type\":\"iframe\"}");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "F", .session = "SF" }));
	CHECK(heard("Page.enable SF") && heard("Runtime.runIfWaitingForDebugger SF"));
	EVENT("SF", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"F\",\"parentId\":\"T1\",\"loaderId\":\"L\",\"url\":\"http://b/\"}");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "F", .url = "http://b/" }));
	EVENT("S1", "Target.detachedFromTarget", "\"sessionId\":\"SF\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "F", .session = "S1" }));
	EVENT("S1", "Page.frameDetached", "\"frameId\":\"F\",\"reason\":\"remove\"");
	CHECK(tab_wait(tab, frame_is_gone, (void *)"G", &wait, NULL) == 0);
	CHECK(tab_wait(tab, frame_is_gone, (void *)"F", &wait, NULL) == 0);
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"H\",\"parentFrameId\":\"T1\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "H" }));
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"T1\",\"loaderId\":\"L2\",\"url\":\"http://c/\"}");
	CHECK(tab_wait(tab, frame_is_gone, (void *)"H", &wait, NULL) == 0);
	EVENT("S1", "Target.attachedToTarget",
	      "\"sessionId\":\"SW\",\"targetInfo\":{\"targetId\":\"W\",\"type\":\"worker\"}");
	CHECK(heard("Runtime.runIfWaitingForDebugger SW"));
	tab_release(tab);
	finish();
}

/* Frames that are below themselves, by one step or two, as a renderer that was taken over might report. */
static void circles(void)
{
	const struct wait wait = seconds(20);
	begin();
	struct tab *tab = current();
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"F\",\"parentFrameId\":\"F\"");
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"G\",\"parentFrameId\":\"H\"");
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"H\",\"parentFrameId\":\"G\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "H" }));
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"F\",\"parentId\":\"F\",\"loaderId\":\"L\",\"url\":\"http://b/\"}");
	CHECK(tab_wait(tab, frame_is_gone, (void *)"F", &wait, NULL) == 0);
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"G\",\"parentId\":\"H\",\"loaderId\":\"L\",\"url\":\"http://b/\"}");
	CHECK(tab_wait(tab, frame_is_gone, (void *)"G", &wait, NULL) == 0);
	CHECK(tab_wait(tab, frame_is_gone, (void *)"H", &wait, NULL) == 0);
	/* The main one takes the name of one that is below itself. */
	EVENT("S1", "Page.frameAttached", "\"frameId\":\"F\",\"parentFrameId\":\"F\"");
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"F\",\"loaderId\":\"L\",\"url\":\"http://c/\"}");
	CHECK(frame_comes(tab, (struct frame_wish){ .id = "F", .url = "http://c/" }));
	pthread_mutex_lock(&tab->lock);
	CHECK(tab->frames && !tab->frames->next);
	pthread_mutex_unlock(&tab->lock);
	tab_release(tab);
	finish();
}

/* Numbers where there should be texts, and larger ones than anything can be. */
static void numbers(void)
{
	begin();
	struct tab *tab = current();
	EVENT("S1", "Network.requestWillBeSent",
	      "\"requestId\":\"R\",\"loaderId\":\"R\",\"frameId\":\"T1\",\"request\":{\"url\":\"http://a/\"}");
	EVENT("S1", "Network.responseReceived",
	      "\"requestId\":\"R\",\"response\":{\"status\":1e300,\"headers\":{\"Content-Length\":5},"
	      "\"encodedDataLength\":9223372036854775807}");
	for (int i = 0; i < 3000; i++)
		EVENT("S1", "Network.dataReceived",
		      "\"requestId\":\"R\",\"dataLength\":9223372036854775807");
	EVENT("S1", "Runtime.consoleAPICalled",
	      "\"type\":\"log\",\"timestamp\":-1e300,\"stackTrace\":{\"callFrames\":[{\"lineNumber\":"
	      "9223372036854775807,\"columnNumber\":-1e300}]}");
	EVENT("S1", "Page.lifecycleEvent",
	      "\"frameId\":\"T1\",\"loaderId\":\"R\",\"name\":\"load\"");
	EVENT("S1", "Page.navigatedWithinDocument", "\"frameId\":\"T1\",\"url\":\"http://a/#y\"");
	CHECK(frame_comes(tab, (struct frame_wish){ .url = "http://a/#y" }));
	tab_release(tab);
	finish();
}

/* The functions of the page library answer with anything: the error says so, and is no rest of another. */
static void odd_answers(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	struct arena arena = { 0 };
	const char *thrown;
	begin();
	struct tab *tab = current();
	CHECK(!act_elements(tab, 10, &wait, &err) && err.code == ERR_INTERNAL);
	err = (struct err){ 0 };
	CHECK(!evaluate_until(tab, "1", 0, &arena, &thrown, &wait, &err) && !thrown &&
	      err.code == ERR_CONFLICT);
	arena_done(&arena);
	tab_release(tab);
	finish();
}

static void tabs_come_and_go(void)
{
	const struct wait wait = seconds(20);
	struct arena arena = { 0 };
	struct err err = { 0 };
	uint64_t since;
	begin();
	since = browser_changes(browser);
	struct tab *first = current();
	struct tab *second = browser_new_tab(browser, "http://x/", &wait, &err);
	CHECK(second && browser_current(browser) == second);
	CHECK(heard("Page.navigate S2"));
	ATTACH("S9", "T9", "devtools://devtools/x");
	CHECK(heard("Target.detachFromTarget"));
	EVENT_OF_BROWSER("Target.detachedFromTarget", "\"sessionId\":\"S2\"");
	CHECK(tab_wait(second, frame_is_gone, (void *)"T2", &wait, &err) < 0);
	CHECK_STR(err.msg, "the tab was closed");
	CHECK(browser_current(browser) == first);
	CHECK_STR(browser_news(browser, &since, &arena),
		  "Tab opened: about:blank. Tab closed: about:blank");
	CHECK(!browser_news(browser, &since, &arena));
	tab_release(first);
	tab_release(second);
	arena_done(&arena);
	finish();
}

static bool has_tabs(struct browser *of, void *arg)
{
	return of->tab_count >= *(size_t *)arg;
}

/* One more would not be ours to drive, and waited for in vain. */
static void too_many_tabs(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	size_t all = TABS_MAX;
	begin();
	for (int i = 1; i < TABS_MAX; i++) {
		auto_free char *text = xasprintf(
			"{\"method\":\"Target.attachedToTarget\",\"params\":{\"sessionId\":\"M%d\","
			"\"targetInfo\":{\"targetId\":\"N%d\",\"type\":\"page\",\"url\":\"about:blank\"}}}",
			i, i);
		say(text);
	}
	CHECK(browser_wait(browser, has_tabs, &all, &wait, &err) == 0);
	CHECK(!browser_new_tab(browser, "about:blank", &wait, &err));
	CHECK(err.code == ERR_LIMIT && strstr(err.msg, "256 tabs"));
	finish();
}

static void dialogs(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	begin();
	struct tab *tab = current();
	CHECK(dialog_answer(tab, true, NULL, &wait, &err) < 0 && err.code == ERR_NOT_FOUND);
	EVENT("S1", "Page.javascriptDialogOpening",
	      "\"type\":\"prompt\",\"message\":\"Name?\",\"defaultPrompt\":\"me\",\"url\":\"u\"");
	CHECK(dialog_comes(tab, true));
	CHECK(tab_ask(tab, "Runtime.evaluate", NULL, &wait, &err) < 0 && err.code == ERR_CONFLICT);
	CHECK(strstr(err.msg, "prompt") && strstr(err.msg, "Name?"));
	CHECK(tab_ask(tab, "Network.getCookies", NULL, &wait, &err) == 0);
	EVENT("S1", "Page.javascriptDialogClosed", "\"result\":true");
	CHECK(dialog_comes(tab, false));
	CHECK(tab_ask(tab, "Runtime.evaluate", NULL, &wait, &err) == 0);
	/* "Leave this page?" is answered by itself; one that nobody answers when it is due. */
	forget();
	EVENT("S1", "Page.javascriptDialogOpening", "\"type\":\"beforeunload\",\"message\":\"\"");
	CHECK(heard("Page.handleJavaScriptDialog S1"));
	EVENT("S1", "Page.javascriptDialogClosed", "\"result\":true");
	CHECK(dialog_comes(tab, false));
	forget();
	EVENT("S1", "Page.javascriptDialogOpening", "\"type\":\"alert\",\"message\":\"late\"");
	CHECK(dialog_comes(tab, true));
	pthread_mutex_lock(&tab->lock);
	tab->dialog->due_ms = clock_ms();
	atomic_store(&browser->due_ms, tab->dialog->due_ms);
	pthread_mutex_unlock(&tab->lock);
	EVENT_OF_BROWSER("Any.thing", "");
	CHECK(heard("Page.handleJavaScriptDialog S1"));
	tab_release(tab);
	finish();
}

static void crashes(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	begin();
	struct tab *tab = current();
	EVENT("S1", "Page.javascriptDialogOpening", "\"type\":\"alert\",\"message\":\"m\"");
	EVENT("S1", "Inspector.targetCrashed", "");
	CHECK(tab_wait(tab, frame_is_gone, (void *)"T1", &wait, &err) < 0);
	CHECK(strstr(err.msg, "crashed") != NULL);
	CHECK(tab_ask(tab, "Runtime.evaluate", NULL, &wait, &err) < 0);
	CHECK(strstr(err.msg, "crashed") != NULL);
	CHECK(tab_ask(tab, "Page.navigate", NULL, &wait, &err) == 0);
	EVENT("S1", "Page.frameNavigated",
	      "\"frame\":{\"id\":\"T1\",\"loaderId\":\"L2\",\"url\":\"http://a/\"}");
	EVENT("S1", "Any.thing", "");
	const json_t *answer = NULL;
	while (!answer && clock_ms() < wait.until_ms) /* it is alive once that event was taken */
		answer = tab_call(tab, "Runtime.evaluate", NULL, &wait, &err);
	CHECK(answer != NULL);
	json_decref((json_t *)answer);
	EVENT_OF_BROWSER("Target.targetCrashed",
			 "\"targetId\":\"T1\",\"status\":\"failed to launch\",\"errorCode\":1002");
	while (!browser_is_lost(browser) && clock_ms() < wait.until_ms)
		(void)tab_ask(tab, "Any.call", NULL, &wait, &err);
	CHECK(browser_is_lost(browser));
	tab_release(tab);
	finish();
}

/* The document that it went to crashes before anybody waits for that to be loaded. */
static void crashes_as_it_arrives(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	bool download;
	begin();
	struct tab *tab = current();
	CHECK(navigate_to(tab, "http://crash/", TAB_LOAD, &download, &wait, &err) < 0);
	CHECK(err.code == ERR_CONFLICT && strstr(err.msg, "crashed"));
	tab_release(tab);
	finish();
}

static void downloads(void)
{
	const struct wait wait = seconds(20);
	struct arena arena = { 0 };
	struct download done = { 0 };
	struct err err = { 0 };
	begin();
	EVENT_OF_BROWSER("Browser.downloadWillBegin",
			 "\"guid\":\"g1\",\"url\":\"http://x/a\",\"suggestedFilename\":\"a.txt\"");
	EVENT_OF_BROWSER("Browser.downloadWillBegin",
			 "\"guid\":\"g2\",\"url\":\"http://x/b\",\"suggestedFilename\":\"../b\"");
	EVENT_OF_BROWSER("Browser.downloadProgress",
			 "\"guid\":\"g1\",\"receivedBytes\":5,\"totalBytes\":5,"
			 "\"state\":\"completed\",\"filePath\":\"/d/a (1).txt\"");
	CHECK(browser_wait_download(browser, 0, &arena, &done, &wait, &err) == 0);
	CHECK_STR(done.path, "/d/a (1).txt");
	CHECK(done.received == 5 && browser_downloads(browser) == 1);
	EVENT_OF_BROWSER("Browser.downloadWillBegin",
			 "\"guid\":\"g3\",\"url\":\"http://x/c\",\"suggestedFilename\":\"c\"");
	EVENT_OF_BROWSER("Browser.downloadProgress", "\"guid\":\"g3\",\"state\":\"canceled\"");
	CHECK(browser_wait_download(browser, 1, &arena, &done, &wait, &err) < 0 &&
	      err.code == ERR_CONFLICT);
	for (int i = 0; i < 200; i++)
		EVENT_OF_BROWSER("Browser.downloadWillBegin",
				 "\"guid\":\"more\",\"url\":\"u\",\"suggestedFilename\":\"x\"");
	EVENT_OF_BROWSER("Browser.downloadProgress", "\"guid\":\"more\",\"state\":\"canceled\"");
	struct download *list;
	CHECK(browser_list_downloads(browser, 1000, &arena, &list) <= DOWNLOADS_MAX);
	arena_done(&arena);
	finish();
}

/* Who holds a tab may do so for longer than there is a browser. */
static void ends(void)
{
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	begin();
	struct tab *tab = current();
	stop_talking();
	CHECK(tab_wait(tab, frame_is_gone, (void *)"T1", &wait, &err) < 0);
	CHECK_STR(err.msg, "the browser has ended");
	CHECK(browser_is_lost(browser));
	finish();
	CHECK(tab_ask(tab, "Runtime.evaluate", NULL, &wait, &err) < 0 &&
	      err.code == ERR_UNAVAILABLE);
	tab_release(tab);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	opens();
	documents();
	frames();
	circles();
	numbers();
	odd_answers();
	tabs_come_and_go();
	too_many_tabs();
	dialogs();
	crashes();
	crashes_as_it_arrives();
	downloads();
	ends();
	return tap_done();
}
