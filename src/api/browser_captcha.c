/* CAPTCHAs: whether one is in the way, and waiting until somebody has solved it. Nothing here does. */
#include <math.h>
#include <string.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/err.h"
#include "browser/tab.h"
#include "net/call.h"

enum { POLL_MIN_MS = 50 };

/* ---- detect ---- */

struct captcha {
	const char *type, *name, *element;
	bool visible, solved, blocking;
	int64_t x, y, width, height;
};
static const struct field captcha_fields[] = {
	STR(captcha, type, 0,
	    "Which rule has found it: recaptcha, hcaptcha, turnstile, cloudflare, arkose, geetest, "
	    "aws_waf, datadome, perimeterx, mtcaptcha, friendly, altcha, yandex, tencent, netease, "
	    "aliyun, slider, image or generic."),
	STR(captcha, name, 0, "Its name, for a person."),
	STR(captcha, element, NULLABLE, "What shows it; null where only its script is there."),
	BOOL(captcha, visible, 0, "Whether it can be seen."),
	BOOL(captcha, solved, 0, "Whether it has left the token of a solved one in the page."),
	BOOL(captcha, blocking, 0, "Whether it waits for a person: visible, and not solved."),
	INT(captcha, x, OMIT, "Its left edge in the viewport, where it can be seen."),
	INT(captcha, y, OMIT, "Its upper edge."),
	INT(captcha, width, OMIT, "In pixels."),
	INT(captcha, height, OMIT, "In pixels."),
};
static const struct schema captcha_schema = SCHEMA(captcha, "Captcha", captcha_fields);

struct captcha_found {
	bool detected;
	struct list captchas;
};
static const struct field found_fields[] = {
	BOOL(captcha_found, detected, 0, "Whether one of them waits for a person."),
	LIST(captcha_found, captchas, 0, "All that the page has.", .item = T_OBJ,
	     .of = &captcha_schema),
};
static const struct schema found_schema =
	SCHEMA(captcha_found, "CaptchaDetectResult", found_fields);
static const struct field found_data = { .type = T_OBJ, .of = &found_schema };

static int detect(struct call *call, const void *in, struct err *err)
{
	struct page_call page;
	struct err cause = { 0 };
	(void)in;
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	json_t *value = frame_js(page.tab, NULL, "captcha", NULL, &page.wait, &cause);
	if (!value)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, page_decode(call, &found_schema, value), err);
}

/* ---- wait ---- */

struct captcha_wait {
	double timeout, poll_interval;
};
static const struct field wait_fields[] = {
	NUM(captcha_wait, timeout, OPTIONAL, "Seconds; 600 at most.", .def = "60"),
	NUM(captcha_wait, poll_interval, OPTIONAL, "Seconds from one look to the next.",
	    .def = "2"),
};
static const struct schema wait_schema = SCHEMA(captcha_wait, "CaptchaWaitRequest", wait_fields);

struct captcha_waited {
	bool resolved;
};
static const struct field waited_fields[] = {
	BOOL(captcha_waited, resolved, 0,
	     "Whether none is in the way any more; also true where there was none."),
};
static const struct schema waited_schema =
	SCHEMA(captcha_waited, "CaptchaWaitResult", waited_fields);
static const struct field waited_data = { .type = T_OBJ, .of = &waited_schema };

static int64_t milliseconds(double seconds, int64_t min)
{
	double ms = seconds * 1000;
	return !(ms > (double)min)        ? min
	       : ms > PAGE_TIMEOUT_MAX_MS ? PAGE_TIMEOUT_MAX_MS
					  : (int64_t)ms;
}

static bool is_gone(const struct err *err)
{
	return err->code == ERR_CONFLICT && strstr(err->msg, "went away");
}

/* A page that takes the place of the one with the CAPTCHA is looked at as well. NULL with err. */
static json_t *wait_in_page(struct page_call *page, int64_t until_ms, int64_t poll_ms,
			    struct err *err)
{
	for (;;) {
		int64_t left = until_ms - clock_ms();
		json_t *args = json_pack("{s:I, s:I}", "timeout_ms",
					 (json_int_t)(left > 0 ? left : 0), "poll_ms",
					 (json_int_t)poll_ms);
		json_t *value = frame_js(page->tab, NULL, "captcha_wait", args, &page->wait, err);
		if (value || !is_gone(err) || clock_ms() >= until_ms)
			return value;
	}
}

static int wait_for_captcha(struct call *call, const void *in, struct err *err)
{
	const struct captcha_wait *request = in;
	int64_t timeout_ms = milliseconds(request->timeout, 0);
	struct page_call page;
	struct err cause = { 0 };
	if (page_begin(call, timeout_ms + PAGE_TIMEOUT_MS, &page, err) < 0)
		return -1;
	json_t *value = wait_in_page(&page, clock_ms() + timeout_ms,
				     milliseconds(request->poll_interval, POLL_MIN_MS), &cause);
	if (!value)
		return page_failed(call, &page, &cause, err);
	return page_reply(call, &page, page_decode(call, &waited_schema, value), err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/captcha/detect", detect, NULL, &found_data, "Detect a CAPTCHA",
	  "Whether the page in the active tab shows a CAPTCHA, and which. It is only reported: a "
	  "person solves it, on the desktop (/vnc/index.html)." },
	{ "POST", "/v1/browser/captcha/wait", wait_for_captcha, &wait_schema, &waited_data,
	  "Wait until a CAPTCHA is solved",
	  "Until none is in the way, or the time is over; also over a navigation." },
};
const struct route_group browser_captcha_group = { "browser", "CAPTCHAs on the page.", routes,
						   COUNT(routes) };
