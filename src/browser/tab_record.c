/* Each has a thread, which gives ffmpeg the tab's pictures with their times. One at most for each frame of
 * the video, and where nothing changes the last one again several times a second: ffmpeg fills the gaps
 * between them. So a slow machine loses pictures, and never time. */
#include "browser/tab_record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/turn.h"
#include "browser/browser_state.h"
#include "browser/chromium.h"
#include "browser/picture_stream.h"
#include "browser/screencast.h"
#include "service/service.h"

enum {
	KEPT_MAX = 16,    /* those that have ended, too */
	REPEAT_MS = 200,  /* from a picture to the same one again */
	FROZEN_MS = 5000, /* the thread wakes more often than that, unless the sandbox was frozen */
	RESUME_MS = 2000, /* for a picture after a pause */
	PAUSE_MAX_MS = TAB_RECORD_SECONDS * 1000,
	FLUSH_MS = 10000, /* for ffmpeg to take what is left, */
	END_MS = 20000,   /* and to end */
	ENDS_MS = 60000,
	PIPE = 1 << 20,
};

enum ending { GOING, ASKED, LONG, PAUSED_LONG, CLOSED, RENEWED, BROWSER, SERVER, VIDEO };
static const char *const endings[] = {
	[GOING] = "",
	[ASKED] = "it was stopped",
	[LONG] = "its whole duration was recorded",
	[PAUSED_LONG] = "it was paused for more than an hour",
	[CLOSED] = "the tab was closed",
	[RENEWED] = "the browser was restarted softly",
	[BROWSER] = "the browser has ended",
	[SERVER] = "the server is stopping",
	[VIDEO] = "ffmpeg has ended",
};

struct tab_record {
	_Atomic int refs; /* the table's, its thread's, its video's, those of callers */
	struct tab_record_wish wish;
	char path[PATH_MAX], target[CDP_ID_MAX];
	int width, height;

	/* of its thread */
	struct service_run *run;
	struct tab *tab;
	int renewals;
	int pipe;
	struct buf picture, message;
	size_t written;  /* of the message */
	int64_t frame;   /* of the latest picture; -1: none yet */
	int64_t seen_ms; /* of clock_ms(): when it looked last */
	int64_t recorded_ms, paused_ms;
	bool pausing;
	int64_t resume_ms; /* of clock_ms(): when it goes on, even if there is no new picture; 0: not yet asked */
	int64_t sent_ms; /* of recorded_ms: when there was a picture, also the same one */

	pthread_mutex_t lock; /* of what follows */
	struct waiter *waiters;
	struct video *video;    /* NULL: it is over, */
	struct video_info last; /* and so it ended */
	int wake_fd;            /* of its thread; -1 once that has ended */
	enum ending asked, why;
	bool pause;
	_Atomic bool over; /* set under the lock */
};

static struct {
	struct turn turn; /* of who starts one */
	pthread_mutex_t lock;
	struct waiter *waiters;
	struct tab_record *list[KEPT_MAX]; /* the oldest first */
	size_t count;
	int threads;
} records = { .turn = TURN, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- references ---- */

static struct tab_record *ref(struct tab_record *r)
{
	atomic_fetch_add(&r->refs, 1);
	return r;
}

void tab_record_unref(struct tab_record *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
		return;
	video_unref(r->video);
	tab_release(r->tab);
	service_release(r->run);
	own_close(&r->pipe);
	own_close(&r->wake_fd);
	buf_done(&r->picture);
	buf_done(&r->message);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* A reference beside which the caller has its own. */
static void unref_shared(struct tab_record *r)
{
	atomic_fetch_sub(&r->refs, 1);
}

/* ---- the table ---- */

static bool is_over(struct tab_record *r)
{
	return atomic_load(&r->over);
}

/* The oldest that has ended makes room. */
static void keep(struct tab_record *r)
{
	struct tab_record *old = NULL;
	pthread_mutex_lock(&records.lock);
	size_t i = 0;
	while (records.count == KEPT_MAX && !is_over(records.list[i]))
		i++;
	if (records.count == KEPT_MAX) {
		old = records.list[i];
		records.count--;
		memmove(records.list + i, records.list + i + 1,
			(records.count - i) * sizeof *records.list);
	}
	records.list[records.count++] = ref(r);
	pthread_mutex_unlock(&records.lock);
	tab_record_unref(old);
}

/* The index of such a tab; -1: there is none. browser: NULL where none runs. */
static int index_of(struct browser *browser, const char *target)
{
	int index = -1;
	if (!browser)
		return -1;
	pthread_mutex_lock(&browser->lock);
	for (size_t i = 0; index < 0 && i < browser->tab_count; i++)
		if (!strcmp(browser->tabs[i]->target, target))
			index = (int)i;
	pthread_mutex_unlock(&browser->lock);
	return index;
}

/* "": there is none. */
static void current_target(struct browser *browser, char to[CDP_ID_MAX])
{
	*to = 0;
	if (!browser)
		return;
	pthread_mutex_lock(&browser->lock);
	if (browser->current)
		memcpy(to, browser->current->target, CDP_ID_MAX);
	pthread_mutex_unlock(&browser->lock);
}

/* The one of the tab that goes on; or else the latest of it, or of a tab that is gone. That of a tab that is gone
 * is not meant while a later one goes on in another tab. */
static struct tab_record *find(struct browser *browser, const char *target)
{
	struct tab_record *found = NULL, *ended = NULL;
	bool elsewhere = false;
	pthread_mutex_lock(&records.lock);
	for (size_t i = records.count; i-- > 0 && !found;) {
		struct tab_record *r = records.list[i];
		bool own = !strcmp(r->target, target), over = is_over(r);
		bool orphan = !own && index_of(browser, r->target) < 0;
		if (own && !over)
			found = r;
		else if (!ended && (own || (orphan && !elsewhere)))
			ended = r;
		elsewhere |= !over && !orphan;
	}
	if (!found)
		found = ended;
	if (found)
		ref(found);
	pthread_mutex_unlock(&records.lock);
	return found;
}

struct tab_record *tab_record_current(void)
{
	struct service_run *run = browser_running();
	struct browser *browser = run ? browser_of(run) : NULL;
	char target[CDP_ID_MAX];
	current_target(browser, target);
	struct tab_record *r = find(browser, target);
	service_release(run);
	return r;
}

bool tab_record_elsewhere(char *to, size_t room)
{
	struct service_run *run = browser_running();
	struct browser *browser = run ? browser_of(run) : NULL;
	int index = -1;
	pthread_mutex_lock(&records.lock);
	for (size_t i = 0; i < records.count && index < 0; i++) {
		const struct tab_record *r = records.list[i];
		if (!atomic_load(&r->over))
			index = index_of(browser, r->target);
		if (index >= 0)
			snprintf(to, room,
				 "Tab %d is being recorded to '%.200s': activate it first (PUT "
				 "/v1/browser/tabs/%d/activate)",
				 index, r->path, index);
	}
	pthread_mutex_unlock(&records.lock);
	service_release(run);
	return index >= 0;
}

/* That a tab can be recorded, and to that file. */
static int check_free(const struct tab *tab, const char *path, struct err *err)
{
	size_t going = 0;
	int result = 0;
	pthread_mutex_lock(&records.lock);
	for (size_t i = 0; i < records.count && result == 0; i++) {
		struct tab_record *r = records.list[i];
		if (is_over(r))
			continue;
		going++;
		if (!strcmp(r->target, tab->target))
			result = err_set(
				err, ERR_CONFLICT,
				"this tab is being recorded to '%.200s': stop that before you "
				"start another recording of it",
				r->path);
		else if (!strcmp(r->path, path))
			result = err_set(err, ERR_CONFLICT,
					 "another tab is being recorded to '%.200s'", path);
	}
	pthread_mutex_unlock(&records.lock);
	if (result == 0 && going >= TAB_RECORDS_MAX)
		result = err_set(err, ERR_CONFLICT,
				 "%d tabs are being recorded, which is the most: stop one first",
				 TAB_RECORDS_MAX);
	return result;
}

/* ---- its thread: the pipe ---- */

/* What the pipe takes of the message now. -1: nobody reads it any more. */
static int write_message(struct tab_record *r)
{
	while (r->written < r->message.len) {
		ssize_t n =
			write(r->pipe, r->message.data + r->written, r->message.len - r->written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		r->written += (size_t)n;
	}
	return 0;
}

static bool is_written(const struct tab_record *r)
{
	return r->written == r->message.len;
}

/* Waits until it is, or until then. */
static bool flush(struct tab_record *r, int64_t until_ms)
{
	while (write_message(r) == 0) {
		if (is_written(r))
			return true;
		if (!wait_until(r->pipe, POLLOUT, until_ms))
			return false;
	}
	return false;
}

static int64_t frame_at(const struct tab_record *r, int64_t ms)
{
	return ms * r->wish.fps / 1000;
}

/* When a frame begins, rounded up. */
static int64_t frame_ms(const struct tab_record *r, int64_t frame)
{
	return (frame * 1000 + r->wish.fps - 1) / r->wish.fps;
}

/* Puts a picture (NULL: the same again) at that frame. */
static void send_picture(struct tab_record *r, const char *text, int64_t frame)
{
	if (text) {
		struct buf next = BUF(SCREENCAST_PICTURE_MAX);
		if (base64_decode(&next, text, strlen(text)) == 0 && next.len) {
			buf_done(&r->picture);
			r->picture = next;
		} else {
			buf_done(&next);
		}
	}
	r->message.len = r->written = 0;
	if (picture_stream_next(&r->message, frame * 1000 / r->wish.fps, r->picture.len) == 0 &&
	    buf_add(&r->message, r->picture.data, r->picture.len) == 0)
		r->frame = frame;
	else
		r->message.len = 0;
	r->sent_ms = r->recorded_ms;
}

/* ---- its thread: time ---- */

/* With the tab's lock. A pause is over with a picture that was made after it: what the page showed meanwhile
 * is nobody's business. */
static bool is_resumed(struct tab_record *r)
{
	if (!r->resume_ms) {
		r->resume_ms = r->seen_ms + RESUME_MS;
		screencast_renew(r->tab);
	}
	return screencast_has(r->tab) || r->seen_ms >= r->resume_ms;
}

static void take_pause(struct tab_record *r)
{
	pthread_mutex_lock(&r->lock);
	bool pause = r->pause;
	pthread_mutex_unlock(&r->lock);
	if (r->pausing && !pause && !is_resumed(r))
		return;
	r->resume_ms = 0;
	if (r->pausing && !pause) /* a picture is due */
		r->sent_ms = INT64_MIN / 2;
	r->pausing = pause;
}

/* With the tab's lock. What was paused, or frozen, is not recorded. */
static void count_time(struct tab_record *r)
{
	int64_t now = clock_ms(), since = now - r->seen_ms;
	r->seen_ms = now;
	if (since > FROZEN_MS)
		since = 0;
	if (r->pausing)
		r->paused_ms += since;
	else
		r->recorded_ms += since;
	take_pause(r);
}

static enum ending why_closed(const struct tab_record *r)
{
	if (r->run->ending || browser_is_lost(r->tab->browser))
		return BROWSER;
	return atomic_load(&r->tab->browser->renewals) != r->renewals ? RENEWED : CLOSED;
}

/* With the tab's lock. */
static enum ending look_for_end(struct tab_record *r)
{
	pthread_mutex_lock(&r->lock);
	enum ending why = r->asked;
	pthread_mutex_unlock(&r->lock);
	if (why == GOING && r->tab->closed)
		why = why_closed(r);
	if (why == GOING && (double)r->recorded_ms >= r->wish.seconds * 1000)
		why = LONG;
	if (why == GOING && r->paused_ms > PAUSE_MAX_MS)
		why = PAUSED_LONG;
	return why;
}

/* With the tab's lock. In how many ms there is a picture to be sent; 0: now. */
static int64_t next_picture(const struct tab_record *r)
{
	if (r->pausing)
		return REPEAT_MS;
	int64_t next = frame_ms(r, r->frame + 1);
	if (!screencast_has(r->tab) && r->sent_ms + REPEAT_MS > next)
		next = r->sent_ms + REPEAT_MS;
	int64_t left = next - r->recorded_ms;
	return left < 0 ? 0 : left < REPEAT_MS ? left : REPEAT_MS;
}

/* With the tab's lock, which it gives up meanwhile. -1: ffmpeg has left. */
static int send_next(struct tab_record *r)
{
	auto_free char *text = is_written(r) ? screencast_take(r->tab) : NULL;
	pthread_mutex_unlock(&r->tab->lock);
	if (is_written(r))
		send_picture(r, text, frame_at(r, r->recorded_ms));
	int result = write_message(r);
	pthread_mutex_lock(&r->tab->lock);
	return result;
}

static void wait_for_more(struct tab_record *r, int64_t ms)
{
	const struct wait wait = { clock_ms() + ms, -1, -1 };
	const struct pollfd woken = { .fd = r->wake_fd, .events = POLLIN };
	const struct pollfd taken = { .fd = r->pipe, .events = POLLOUT };
	eventfd_t ignored;
	(void)wait_change(&wait, &r->tab->lock, &r->tab->waiters, is_written(r) ? &woken : &taken);
	(void)eventfd_read(r->wake_fd, &ignored);
}

/* Returns why it is to end. */
static enum ending feed(struct tab_record *r)
{
	enum ending why;
	int sent = 0;
	pthread_mutex_lock(&r->tab->lock);
	for (;;) {
		count_time(r);
		screencast_settle(r->tab);
		why = sent < 0 ? VIDEO : look_for_end(r);
		if (why != GOING)
			break;
		int64_t in_ms = is_written(r) ? next_picture(r) : 0;
		if (in_ms == 0)
			sent = send_next(r);
		if (sent == 0 && (in_ms > 0 || !is_written(r)))
			wait_for_more(r, in_ms ? in_ms : REPEAT_MS);
	}
	pthread_mutex_unlock(&r->tab->lock);
	return why;
}

/* ---- its thread: the end ---- */

/* The last frame has what is seen last. A video has one at least. */
static void send_last(struct tab_record *r)
{
	int64_t until = clock_ms() + FLUSH_MS, most = (int64_t)(r->wish.seconds * 1000);
	int64_t ms = r->recorded_ms < most ? r->recorded_ms : most;
	int64_t last = (ms * r->wish.fps + 500) / 1000 - 1;
	if (last < 0)
		last = 0;
	pthread_mutex_lock(&r->tab->lock);
	auto_free char *text = r->pausing ? NULL : screencast_take(r->tab);
	pthread_mutex_unlock(&r->tab->lock);
	if (!flush(r, until) || last <= r->frame || (!text && !r->picture.len))
		return;
	send_picture(r, text, last);
	(void)flush(r, until);
}

static void end_video(struct tab_record *r)
{
	own_close(&r->pipe);
	r->pipe = -1;
	(void)video_await_end(r->video, &(struct wait){ clock_ms() + END_MS, -1, -1 });
	video_end(r->video);
}

/* What it used is free when it is over. */
static void become_over(struct tab_record *r, enum ending why)
{
	struct video_info last;
	video_look(r->video, &last);
	tab_release(TAKE(r->tab));
	service_release(TAKE(r->run));
	buf_done(&r->picture);
	buf_done(&r->message);
	pthread_mutex_lock(&r->lock);
	own_close(&r->wake_fd);
	r->wake_fd = -1;
	r->why = why;
	r->last = last;
	struct video *video = TAKE(r->video);
	atomic_store(&r->over, true);
	waiter_wake(r->waiters);
	pthread_mutex_unlock(&r->lock);
	video_unref(video);
}

static void *record(void *arg)
{
	struct tab_record *r = arg;
	enum ending why = feed(r);
	if (why != VIDEO)
		send_last(r);
	screencast_stop(r->tab);
	end_video(r);
	become_over(r, why);
	tab_record_unref(r);
	pthread_mutex_lock(&records.lock);
	records.threads--;
	waiter_wake(records.waiters);
	pthread_mutex_unlock(&records.lock);
	return NULL;
}

/* ---- its start ---- */

/* Has its thread look. */
static void ask(struct tab_record *r, enum ending why)
{
	pthread_mutex_lock(&r->lock);
	if (r->asked == GOING)
		r->asked = why;
	if (r->wake_fd >= 0)
		(void)eventfd_write(r->wake_fd, 1);
	pthread_mutex_unlock(&r->lock);
}

static void note_video_end(void *arg)
{
	ask(arg, VIDEO);
	tab_record_unref(arg);
}

/* The frames of the video are as good as the pictures that they are made of. */
static int64_t crf_of(int64_t quality)
{
	return 43 - quality / 4;
}

/* H.264 has colours for pairs of pixels only. */
static int even(int side)
{
	return (side + 1) & ~1;
}

static int start_video(struct tab_record *r, const struct server *server, int in, struct err *err)
{
	char filter[200];
	video_fit(filter, sizeof filter, r->width, r->height);
	size_t len = strlen(filter);
	snprintf(filter + len, sizeof filter - len, ",fps=%d", (int)r->wish.fps);
	const char *const from[] = { "-threads", "1",  "-probesize", "32", "-f",
				     "matroska", "-i", "pipe:0",     NULL };
	const struct video_spec spec = { .path = r->path,
					 .from = from,
					 .filter = filter,
					 .fps = r->wish.fps,
					 .crf = crf_of(r->wish.quality),
					 .seconds = r->wish.seconds + 1,
					 .in = in,
					 .ended = note_video_end,
					 .arg = ref(r) };
	r->video = video_start(server, &spec, err);
	if (!r->video)
		unref_shared(r);
	return r->video ? 0 : -1;
}

static int open_stream(struct tab_record *r, const struct server *server, struct err *err)
{
	int ends[2];
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, ERR_LIMIT, "no descriptors for a recording");
	auto_close int in = ends[0];
	r->pipe = ends[1];
	(void)fcntl(r->pipe, F_SETPIPE_SZ, PIPE);
	(void)fcntl(r->pipe, F_SETFL, O_NONBLOCK);
	if (picture_stream_begin(&r->message, r->width, r->height, r->wish.fps) < 0 ||
	    write_message(r) < 0)
		return err_set(err, ERR_INTERNAL, "the recording's stream cannot be begun");
	return start_video(r, server, in, err);
}

static int start_thread(struct tab_record *r, struct err *err)
{
	pthread_mutex_lock(&records.lock);
	records.threads++;
	pthread_mutex_unlock(&records.lock);
	r->seen_ms = clock_ms();
	if (thread_start(record, ref(r)) == 0)
		return 0;
	pthread_mutex_lock(&records.lock);
	records.threads--;
	pthread_mutex_unlock(&records.lock);
	video_end(r->video);
	screencast_stop(r->tab);
	unref_shared(r);
	return err_set(err, ERR_LIMIT, "there is no thread for a recording");
}

static struct tab_record *make(const struct tab_record_wish *wish)
{
	struct tab_record *r = xcalloc(1, sizeof *r);
	r->refs = 1;
	r->wish = *wish;
	snprintf(r->path, sizeof r->path, "%s", wish->path);
	r->wish.path = r->path;
	r->pipe = r->wake_fd = -1;
	r->frame = -1;
	r->sent_ms = INT64_MIN / 2;
	buf_init(&r->message, SCREENCAST_PICTURE_MAX + 4096);
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

/* The tab, its first picture, and the video that this is given to: a reference in *ret_video, as its thread
 * may be over soon. */
static int begin(struct tab_record *r, const struct server *server, struct video **ret_video,
		 const struct wait *wait, struct err *err)
{
	r->run = browser_use(wait, err);
	if (!r->run)
		return -1;
	struct browser *browser = browser_of(r->run);
	r->renewals = atomic_load(&browser->renewals);
	r->tab = browser_tab(browser, wait, err);
	if (!r->tab || check_free(r->tab, r->path, err) < 0)
		return -1;
	memcpy(r->target, r->tab->target, sizeof r->target);
	if (screencast_start(r->tab, r->wish.quality, &r->width, &r->height, wait, err) < 0)
		return -1;
	r->width = even(r->width);
	r->height = even(r->height);
	if (open_stream(r, server, err) < 0) {
		screencast_stop(r->tab);
		return -1;
	}
	*ret_video = video_ref(r->video);
	return start_thread(r, err);
}

/* Until it is over, the tab cannot be recorded again. */
static void abandon(struct tab_record *r)
{
	const struct wait wait = { clock_ms() + FLUSH_MS + END_MS, -1, -1 };
	ask(r, ASKED);
	(void)tab_record_await(r, &wait, NULL);
}

struct tab_record *tab_record_start(const struct server *server, const struct tab_record_wish *wish,
				    const struct wait *wait, struct err *err)
{
	if (turn_take(&records.turn, wait, err) < 0)
		return NULL;
	struct tab_record *r = make(wish);
	struct video *video = NULL;
	int result = begin(r, server, &video, wait, err);
	if (result == 0) {
		result = video_await(video, wait, err);
		if (result == 0)
			keep(r);
		else
			abandon(r);
	}
	turn_give(&records.turn);
	video_unref(video);
	if (result == 0)
		return r;
	tab_record_unref(r);
	return NULL;
}

/* ---- later ---- */

int tab_record_pause(struct tab_record *r, bool pause, struct err *err)
{
	pthread_mutex_lock(&r->lock);
	bool over = atomic_load(&r->over) || r->asked != GOING, was = r->pause;
	if (!over && was != pause) {
		r->pause = pause;
		(void)eventfd_write(r->wake_fd, 1);
	}
	pthread_mutex_unlock(&r->lock);
	if (over)
		return err_set(err, ERR_CONFLICT,
			       "the recording has ended: start another one first");
	if (was == pause)
		return err_set(err, ERR_CONFLICT, "the recording is %s",
			       pause ? "paused already" : "not paused");
	return 0;
}

int tab_record_await(struct tab_record *r, const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&r->lock);
	while (!atomic_load(&r->over) && wake == WAKE_READY)
		wake = wait_change(wait, &r->lock, &r->waiters, NULL);
	bool over = atomic_load(&r->over);
	pthread_mutex_unlock(&r->lock);
	return over ? 0 : wake_err(wake, err);
}

void tab_record_ask_end(struct tab_record *r)
{
	ask(r, ASKED);
}

bool tab_record_is_going(struct tab_record *r)
{
	return !is_over(r);
}

void tab_record_look(struct tab_record *r, struct tab_record_info *ret)
{
	*ret = (struct tab_record_info){ .fps = r->wish.fps,
					 .width = r->width,
					 .height = r->height };
	snprintf(ret->path, sizeof ret->path, "%s", r->path);
	pthread_mutex_lock(&r->lock);
	bool over = atomic_load(&r->over);
	enum ending why = r->why;
	struct video *video = r->video ? video_ref(r->video) : NULL;
	ret->video = r->last;
	ret->state = over ? TAB_RECORD_ENDED : r->pause ? TAB_RECORD_PAUSED : TAB_RECORD_GOING;
	pthread_mutex_unlock(&r->lock);
	if (video)
		video_look(video, &ret->video);
	video_unref(video);
	if (!over)
		return;
	ret->early = ret->video.failed || (why != ASKED && why != LONG);
	snprintf(ret->why, sizeof ret->why, "%s",
		 ret->video.failed ? ret->video.why : endings[why]);
}

/* ---- the end of the server ---- */

void tab_records_ask_end(void)
{
	pthread_mutex_lock(&records.lock);
	for (size_t i = 0; i < records.count; i++)
		ask(records.list[i], SERVER);
	pthread_mutex_unlock(&records.lock);
}

void tab_records_end(void)
{
	const struct wait wait = { clock_ms() + ENDS_MS, -1, -1 };
	enum wake wake = WAKE_READY;
	tab_records_ask_end();
	pthread_mutex_lock(&records.lock);
	while (records.threads && wake == WAKE_READY)
		wake = wait_change(&wait, &records.lock, &records.waiters, NULL);
	while (records.count) {
		struct tab_record *r = records.list[--records.count];
		pthread_mutex_unlock(&records.lock);
		tab_record_unref(r);
		pthread_mutex_lock(&records.lock);
	}
	pthread_mutex_unlock(&records.lock);
}
