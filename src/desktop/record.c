#include "desktop/record.h"

#include <pthread.h>
#include <stdio.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "base/turn.h"
#include "desktop/display.h"
#include "desktop/x.h"
#include "service/service.h"

enum { SIDE_MAX = 4096 };

static struct {
	struct turn turn; /* of who starts or ends one */
	_Atomic bool starting;
	pthread_mutex_t lock;
	struct video *video; /* NULL: there has been none */
	char path[PATH_MAX];
} recording = { .turn = TURN, .lock = PTHREAD_MUTEX_INITIALIZER };

/* A reference, or NULL. */
static struct video *current(char path[PATH_MAX])
{
	pthread_mutex_lock(&recording.lock);
	struct video *video = recording.video ? video_ref(recording.video) : NULL;
	snprintf(path, PATH_MAX, "%s", recording.path);
	pthread_mutex_unlock(&recording.lock);
	return video;
}

static void put(struct video *video, const char *path)
{
	pthread_mutex_lock(&recording.lock);
	struct video *old = recording.video;
	recording.video = video;
	snprintf(recording.path, sizeof recording.path, "%s", path);
	pthread_mutex_unlock(&recording.lock);
	video_unref(old);
}

/* ---- how large it is ---- */

/* H.264 has colours for pairs of pixels only. */
static unsigned even(int64_t side)
{
	return (unsigned)((side + 1) & ~1LL);
}

/* Where one side is given, the other one follows. */
static struct x_size picture_size(const struct record_wish *wish, const struct x_size *screen)
{
	int64_t width = wish->width, height = wish->height;
	if (width == INT_ABSENT)
		width = height == INT_ABSENT ? screen->width
					     : screen->width * height / screen->height;
	if (height == INT_ABSENT)
		height = wish->width == INT_ABSENT ? screen->height
						   : screen->height * width / screen->width;
	return (struct x_size){ (int)even(width ? width : 1), (int)even(height ? height : 1) };
}

static int check_side(const char *name, int64_t side, struct err *err)
{
	if (side == INT_ABSENT || side <= SIDE_MAX)
		return 0;
	return err_set(err, ERR_INVALID, "%s is %lld: a recording has at most %d pixels a side",
		       name, (long long)side, SIDE_MAX);
}

/* The whole screen, as large as it fits. A screen with an odd side gets a row of black pixels. */
static void make_filter(char *to, size_t room, const struct x_size *picture,
			const struct x_size *screen)
{
	int width = picture->width, height = picture->height;
	if (width - screen->width <= 1 && width >= screen->width && height - screen->height <= 1 &&
	    height >= screen->height)
		snprintf(to, room, "pad=%d:%d", width, height);
	else
		video_fit(to, room, width, height);
}

/* ---- its start and its end ---- */

static void release_desktop(void *run)
{
	service_release(run);
}

/* The desktop is the video's until that ends. */
static struct video *film(const struct server *server, const struct record_wish *wish,
			  struct service_run *desktop, const struct wait *wait, struct err *err)
{
	struct x_size screen;
	char fps[16], size[32], filter[160];
	if (x_size(display_x(desktop), &screen, wait, err) < 0) {
		display_failed(desktop);
		return NULL;
	}
	const struct x_size picture = picture_size(wish, &screen);
	snprintf(fps, sizeof fps, "%d", (int)wish->fps);
	snprintf(size, sizeof size, "%dx%d", screen.width, screen.height);
	make_filter(filter, sizeof filter, &picture, &screen);
	const char *const from[] = { "-f", "x11grab", "-framerate",   fps, "-video_size",
				     size, "-i",      display_name(), NULL };
	return video_start(server,
			   &(struct video_spec){ .path = wish->path,
						 .from = from,
						 .filter = filter,
						 .fps = wish->fps,
						 .crf = wish->crf,
						 .seconds = wish->seconds,
						 .in = -1,
						 .ended = release_desktop,
						 .arg = desktop },
			   err);
}

static int start(const struct server *server, const struct record_wish *wish,
		 const struct wait *wait, struct err *err)
{
	struct service_run *desktop = display_use(wait, err);
	if (!desktop)
		return -1;
	struct video *video = film(server, wish, desktop, wait, err);
	if (!video) {
		service_release(desktop);
		return -1;
	}
	if (video_await(video, wait, err) < 0) {
		video_end(video);
		video_unref(video);
		return -1;
	}
	put(video, wish->path);
	return 0;
}

int record_start(const struct server *server, const struct record_wish *wish,
		 const struct wait *wait, struct err *err)
{
	if (check_side("width", wish->width, err) < 0 ||
	    check_side("height", wish->height, err) < 0 ||
	    turn_take(&recording.turn, wait, err) < 0)
		return -1;
	int result = -1;
	if (record_is_going())
		err_set(err, ERR_CONFLICT,
			"a recording is in progress: stop it before you start another");
	else {
		recording.starting = true;
		result = start(server, wish, wait, err);
		recording.starting = false;
	}
	turn_give(&recording.turn);
	return result;
}

int record_stop(const struct wait *wait, struct err *err)
{
	char path[PATH_MAX];
	if (turn_take(&recording.turn, wait, err) < 0)
		return -1;
	struct video *video = current(path);
	if (video)
		video_end(video);
	video_unref(video);
	turn_give(&recording.turn);
	return 0;
}

void record_look(struct record_info *ret)
{
	struct video *video = current(ret->path);
	ret->state = RECORD_IDLE;
	ret->video = (struct video_info){ .bytes = -1 };
	if (!video)
		return;
	video_look(video, &ret->video);
	ret->state = ret->video.ended ? RECORD_STOPPED : RECORD_GOING;
	video_unref(video);
}

bool record_is_going(void)
{
	struct record_info info;
	record_look(&info);
	return recording.starting || info.state == RECORD_GOING;
}

void record_ask_end(void)
{
	char path[PATH_MAX];
	struct video *video = current(path);
	if (video)
		video_ask_end(video);
	video_unref(video);
}

void record_end(void)
{
	char path[PATH_MAX];
	struct video *video = current(path);
	if (video)
		video_end(video);
	video_unref(video);
	put(NULL, "");
}
