/* The desktop as a person has it: what it looks like, its mouse and keyboard, how large it is. */
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser.h"
#include "browser/chromium.h"
#include "browser/tab.h"
#include "desktop/display.h"
#include "desktop/picture.h"
#include "desktop/x.h"
#include "desktop/x_image.h"
#include "net/call.h"
#include "service/service.h"

enum {
	PICTURE_MAX = 64 << 20,
	START_MS = 60000, /* for a desktop that does not run yet */
	STEP_MS = 15000,
	WINDOW_MS = 2000, /* for the browser's window to take the size of the screen */
	QUALITY = 80,
	SIDE_MAX = 65535,
};

/* A lease of the desktop, which is started if need be, with the browser on it. NULL with err. */
static struct service_run *use(struct call *call, struct err *err)
{
	const struct wait wait = call_until(call, clock_ms() + START_MS);
	return browser_show(&wait, err) < 0 ? NULL : display_use(&wait, err);
}

/* ---- the screenshot ---- */

struct screen_screenshot {
	const char *format;
	int64_t quality, max_size;
};
static const char *const formats[] = { "png", "jpg", "jpeg", NULL };
static const struct field screenshot_fields[] = {
	ENUM(screen_screenshot, format, QUERY, "Of the picture.", .choices = formats, .def = "png"),
	INT(screen_screenshot, quality, QUERY | MIN | MAX, "Of a JPEG; 80 when absent.", .min = 0,
	    .max = 100),
	INT(screen_screenshot, max_size, QUERY | MIN,
	    "Pixels that the longer side may have: a larger picture is made smaller. x-image-width and "
	    "x-image-height say how large it is then, x-screen-width and x-screen-height what it shows.",
	    .min = 1),
};
static const struct schema screenshot_schema =
	SCHEMA(screen_screenshot, "ScreenshotQuery", screenshot_fields);

static int encode(const struct screen_screenshot *request, const struct picture *picture,
		  struct buf *to, struct err *err)
{
	int quality = request->quality == INT_ABSENT ? QUALITY : (int)request->quality;
	return !strcmp(request->format, "png") ? picture_png(picture, to, err)
					       : picture_jpeg(picture, quality, to, err);
}

/* The file of a picture; *ret is how large it is there. */
static int encode_small(const struct screen_screenshot *request, const struct picture *picture,
			struct buf *to, struct picture *ret, struct err *err)
{
	int64_t side = request->max_size == INT_ABSENT || request->max_size > SIDE_MAX
			       ? SIDE_MAX
			       : request->max_size;
	auto_free unsigned char *pixels = NULL;
	const struct picture small = picture_shrink(picture, (unsigned)side, &pixels);
	*ret = (struct picture){ .width = small.width, .height = small.height };
	return encode(request, &small, to, err);
}

static const char *digits(struct call *call, unsigned number)
{
	return arena_printf(call->arena, "%u", number);
}

static int send_picture(struct call *call, const char *type, const struct picture *screen,
			const struct picture *image, const struct buf *file, struct err *err)
{
	const char *scale = arena_printf(call->arena, "%.6g", (double)image->width / screen->width);
	const struct answer answer = {
		200, type, (int64_t)file->len,
		.headers = { { "x-screen-width", digits(call, screen->width) },
			     { "x-screen-height", digits(call, screen->height) },
			     { "x-image-width", digits(call, image->width) },
			     { "x-image-height", digits(call, image->height) },
			     { "x-image-scale", scale },
			     { "Cache-Control", "no-store" } },
		.header_count = 6
	};
	if (call->sink->begin(call->sink, &answer, err) < 0)
		return -1;
	return call->sink->write(call->sink, file->data, file->len, err);
}

static int take_screenshot(struct call *call, const void *in, struct err *err)
{
	const struct screen_screenshot *request = in;
	const struct wait wait = call_until(call, clock_ms() + START_MS + STEP_MS);
	auto_buf struct buf file = BUF(PICTURE_MAX);
	struct picture picture, sent = { 0 };
	struct service_run *run = use(call, err);
	if (!run)
		return -1;
	struct x_image *image = display_image(run);
	int result = x_image_take(image, &picture, &wait, err);
	if (result == 0) {
		result = encode_small(request, &picture, &file, &sent, err);
		x_image_give(image);
	} else {
		display_failed(run);
	}
	service_release(run);
	if (result < 0)
		return -1;
	bool png = !strcmp(request->format, "png");
	return send_picture(call, png ? "image/png" : "image/jpeg", &picture, &sent, &file, err);
}

/* ---- how large the screen is ---- */

static const struct screen_resolution {
	int64_t width, height;
} resolutions[] = {
	{ 640, 480 },   { 800, 600 },   { 1024, 768 },  { 1280, 720 },  { 1280, 800 },
	{ 1280, 960 },  { 1280, 1024 }, { 1360, 768 },  { 1400, 1050 }, { 1600, 1200 },
	{ 1680, 1050 }, { 1920, 1080 }, { 1920, 1200 },
};
static const struct field resolution_fields[] = {
	INT(screen_resolution, width, REQUIRED | ABOVE, "Screen width in pixels.", .min = 0),
	INT(screen_resolution, height, REQUIRED | ABOVE, "Screen height in pixels.", .min = 0),
};
static const struct schema resolution_schema =
	SCHEMA(screen_resolution, "Resolution", resolution_fields);
static const struct field resolution_data = { .type = T_OBJ, .of = &resolution_schema };

struct screen_config {
	json_t *resolution;
};
static const struct field config_fields[] = {
	JSON(screen_config, resolution, 0,
	     "The screen's new size, as an object or as text such as \"1280x720\": one of 640x480, "
	     "800x600, 1024x768, 1280x720, 1280x800, 1280x960, 1280x1024, 1360x768, 1400x1050, "
	     "1600x1200, 1680x1050, 1920x1080, 1920x1200.",
	     .of = &resolution_schema),
};
static const struct schema config_schema =
	SCHEMA(screen_config, "BrowserConfigRequest", config_fields);

static bool parse_size(const char *text, struct screen_resolution *ret)
{
	int end = 0;
	long long width, height;
	if (sscanf(text, "%5lld%*1[xX*]%5lld%n", &width, &height, &end) != 2 || text[end])
		return false;
	*ret = (struct screen_resolution){ width, height };
	return true;
}

static int bad_resolution(const char *got, struct err *err)
{
	char all[256] = "";
	for (size_t i = 0, len = 0; i < COUNT(resolutions); i++)
		len += (size_t)snprintf(all + len, sizeof all - len, "%s%dx%d", i ? ", " : "",
					(int)resolutions[i].width, (int)resolutions[i].height);
	return err_set(err, ERR_INVALID, "unsupported resolution %.40s: expected one of %s", got,
		       all);
}

static int64_t side(const json_t *object, const char *name)
{
	double value = json_number_value(json_object_get(object, name));
	return value > -1e15 && value < 1e15 ? (int64_t)value : 0;
}

/* What is asked for, if it is one of those that there are. */
static int get_resolution(struct call *call, const json_t *json, struct screen_resolution *ret,
			  struct err *err)
{
	const char *text = json_string_value(json);
	*ret = (struct screen_resolution){ side(json, "width"), side(json, "height") };
	if (text && !parse_size(text, ret))
		return bad_resolution(text, err);
	for (size_t i = 0; i < COUNT(resolutions); i++)
		if (resolutions[i].width == ret->width && resolutions[i].height == ret->height)
			return 0;
	return bad_resolution(arena_printf(call->arena, "%lldx%lld", (long long)ret->width,
					   (long long)ret->height),
			      err);
}

/* The browser's window has another size a moment later. */
static void await_window(const struct screen_resolution *size, const struct wait *wait)
{
	const struct wait soon = { clock_ms() + WINDOW_MS, wait->client_fd, wait->stop_fd };
	struct service_run *run = browser_running();
	struct tab *tab = run ? browser_tab(browser_of(run), &soon, NULL) : NULL;
	if (tab)
		browser_await_fit(browser_of(run), tab, (int)size->width, (int)size->height, &soon);
	tab_release(tab);
	service_release(run);
}

static int set_config(struct call *call, const void *in, struct err *err)
{
	const struct screen_config *request = in;
	const struct wait wait = call_until(call, clock_ms() + START_MS + STEP_MS);
	struct screen_resolution to;
	if (!request->resolution || json_is_null(request->resolution))
		return call_reply(call, NULL, err);
	if (get_resolution(call, request->resolution, &to, err) < 0)
		return -1;
	struct service_run *run = use(call, err);
	if (!run)
		return -1;
	int result = display_resize(run, (unsigned)to.width, (unsigned)to.height, &wait, err);
	if (result < 0)
		display_failed(run);
	service_release(run);
	if (result == 0)
		await_window(&to, &wait);
	return result < 0 ? result : call_reply(call, &to, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/screenshot", take_screenshot, &screenshot_schema, NULL,
	  "Take a screenshot of the desktop",
	  "Of the whole screen, the browser's tabs included; a PNG or a JPEG. The headers "
	  "x-screen-width and x-screen-height say how large the screen is.",
	  .flags = BARE, .type = "image/png" },
	{ "POST", "/v1/browser/config", set_config, &config_schema, &resolution_data,
	  "Change the size of the screen",
	  "At once, without a restart; it stays so when the desktop is started again." },
};
const struct route_group browser_screen_group = { "browser", "A browser on a desktop.", routes,
						  COUNT(routes) };
