#include "desktop/video.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "fs/place.h"
#include "fs/save.h"
#include "net/server.h"
#include "proc/program.h"
#include "proc/pump.h"
#include "proc/tools.h"
#include "proc/user.h"

enum {
	ARGS_MAX = 64,
	LINE_MAX_ = 100, /* of its progress: a name and a number */
	READS_AT_END = 16,
	EARLY_SECONDS = 1,
	KEY_SECONDS = 5, /* from one picture that can be jumped to, to the next */
	GRACE_MS = 10000,
	KILLED_MS = 5000,
	SECONDS_MAX = 30 * 24 * 3600,
};

struct video {
	struct source progress; /* first: see video_of() */
	_Atomic int refs;       /* its owner's, its program's, its progress' */
	const struct user *user;
	struct program *program;
	void (*ended)(void *arg);
	void *arg;
	int64_t fps;
	double seconds;
	char path[PATH_MAX];
	bool progress_open; /* of the pump's thread */
	char line[LINE_MAX_];
	size_t line_len;

	pthread_mutex_t lock; /* of what follows */
	struct waiter *waiters;
	bool asked, over;
	int64_t last_us; /* when the last picture was filmed; -1: none was */
	int64_t frames;
	struct program_status how;
	char why[280]; /* its last words */
};

struct video *video_ref(struct video *video)
{
	atomic_fetch_add(&video->refs, 1);
	return video;
}

void video_unref(struct video *video)
{
	if (!video || atomic_fetch_sub(&video->refs, 1) > 1)
		return;
	program_unref(video->program);
	pthread_mutex_destroy(&video->lock);
	free(video);
}

/* ---- how far it is ---- */

static struct video *video_of(struct source *source)
{
	return (struct video *)source;
}

static void take_line(struct video *video)
{
	long long us, frames = 0;
	video->line[video->line_len] = 0;
	pthread_mutex_lock(&video->lock);
	if (sscanf(video->line, "out_time_us=%18lld", &us) == 1 && us >= 0)
		video->last_us = us;
	else if (sscanf(video->line, "frame=%18lld", &frames) == 1 && frames > 0)
		video->frames = frames;
	if (video->frames > 0 && video->last_us < 0)
		video->last_us = 0;
	waiter_wake(video->waiters);
	pthread_mutex_unlock(&video->lock);
	video->line_len = 0;
}

static bool read_progress(struct source *source)
{
	struct video *video = video_of(source);
	char data[2048];
	ssize_t n = read(source->fd, data, sizeof data);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	for (const char *at = data; at < data + n; at++)
		if (*at == '\n')
			take_line(video);
		else if (video->line_len < sizeof video->line - 1)
			video->line[video->line_len++] = *at;
	return true;
}

static void forget_progress(struct source *source)
{
	struct video *video = video_of(source);
	video->progress_open = false;
	video_unref(video);
}

/* ---- its end ---- */

static void note_end(struct video *video, struct program *program, const struct program_status *how)
{
	pthread_mutex_lock(&video->lock);
	video->over = true;
	video->how = *how;
	program_words(program, video->why, sizeof video->why);
	waiter_wake(video->waiters);
	pthread_mutex_unlock(&video->lock);
}

static void note_program_end(void *arg, struct program *program, const struct program_status *how)
{
	struct video *video = arg;
	bool open = video->progress_open;
	for (int i = 0; open && i < READS_AT_END && read_progress(&video->progress); i++)
		;
	note_end(video, program, how);
	if (open)
		pump_drop(&video->progress);
	if (video->ended)
		video->ended(video->arg);
	video_unref(video);
}

/* With the lock. Asked to end, it exits with 255; of a full disk it only speaks, and exits with 0. */
static bool has_failed(const struct video *video)
{
	if (!video->over || video->how.signal)
		return video->over;
	bool early = (double)video->last_us / 1e6 + EARLY_SECONDS < video->seconds;
	return !video->asked && (video->how.code != 0 || (*video->why && early));
}

static void say_why(const struct video *video, char *to, size_t room)
{
	if (video->how.signal)
		snprintf(to, room, "ffmpeg was killed by signal %d", video->how.signal);
	else if (*video->why)
		snprintf(to, room, "ffmpeg: %s", video->why);
	else
		snprintf(to, room, "ffmpeg ended with exit code %d", video->how.code);
}

/* ---- its start ---- */

void video_fit(char *to, size_t room, int width, int height)
{
	snprintf(to, room,
		 "scale=%d:%d:force_original_aspect_ratio=decrease,"
		 "pad=%d:%d:(ow-iw)/2:(oh-ih)/2,setsar=1",
		 width, height, width, height);
}

static const char *find_ffmpeg(const struct server *server, const struct user *user,
			       struct arena *arena, struct err *err)
{
	const struct tools_where where = { server->home, user, -1 };
	auto_free char *found = tools_find(&where, "ffmpeg", 0);
	if (found)
		return arena_strdup(arena, found);
	err_set(err, ERR_UNAVAILABLE,
		"ffmpeg is not installed: install the package ffmpeg (make deps does), or, in a box "
		"of an image, use an image that has it");
	return NULL;
}

/* As the user. Of a file that is there nothing changes yet: ffmpeg empties it when it begins. */
static int make_file(const struct video *video, const char *path, struct place *place,
		     struct err *err)
{
	struct user_view view;
	if (user_enter(video->user, &view, err) < 0)
		return -1;
	int result = place_hold(path, place, err);
	if (result == 0)
		result = save_append(place, "", 0, err);
	user_leave(&view);
	return result;
}

/* One that it made, and nothing was written to. */
static void remove_empty(const struct video *video)
{
	struct user_view view;
	struct stat st;
	if (user_enter(video->user, &view, NULL) < 0)
		return;
	if (stat(video->path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		(void)unlink(video->path);
	user_leave(&view);
}

struct video_args {
	struct arena *arena;
	size_t count;
	char *list[ARGS_MAX + 1];
};

static void add_words(struct video_args *args, const char *const *list)
{
	for (; *list && args->count < ARGS_MAX; list++)
		args->list[args->count++] = arena_strdup(args->arena, *list);
}

static char *const *make_args(const struct video *video, const struct video_spec *spec,
			      const char *program, struct arena *arena)
{
	struct video_args *args = arena_alloc(arena, sizeof *args);
	const char *key = arena_printf(arena, "%d", (int)spec->fps * KEY_SECONDS);
	const char *crf = arena_printf(arena, "%d", (int)spec->crf);
	const char *most = arena_printf(arena, "%.6f", video->seconds);
	const char *path = arena_printf(arena, "file:%s", video->path);
	const char *filter = spec->filter ? spec->filter : "null";
	*args = (struct video_args){ .arena = arena };
	add_words(args,
		  (const char *[]){ program, "-hide_banner", "-nostdin", "-nostats", "-loglevel",
				    "error", "-progress", "pipe:3", "-filter_threads", "1", NULL });
	add_words(args, spec->from);
	add_words(args, (const char *[]){ "-t",
					  most,
					  "-vf",
					  filter,
					  "-an",
					  "-c:v",
					  "libx264",
					  "-preset",
					  "ultrafast",
					  "-tune",
					  "zerolatency",
					  "-threads",
					  "2",
					  "-pix_fmt",
					  "yuv420p",
					  "-crf",
					  crf,
					  "-g",
					  key,
					  "-movflags",
					  "+empty_moov+default_base_moof+frag_keyframe",
					  "-frag_duration",
					  "1000000",
					  "-flush_packets",
					  "1",
					  "-f",
					  "mp4",
					  "-y",
					  path,
					  NULL });
	return args->list;
}

static int start_program(struct video *video, const struct server *server,
			 const struct video_spec *spec, struct arena *arena, struct err *err)
{
	int ends[2];
	const char *path = find_ffmpeg(server, video->user, arena, err);
	if (!path)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, ERR_LIMIT, "no pipe for ffmpeg");
	auto_close int ours = ends[0], theirs = ends[1];
	fcntl(ours, F_SETFL, O_NONBLOCK);
	struct program_spec program = {
		.spawn = { .path = path,
			   .argv = make_args(video, spec, path, arena),
			   .cwd = "/",
			   .fds = { spec->in, -1, -1, theirs, -1 },
			   .extras = 1 },
		.words = true,
		.group = true,
		.ended = note_program_end,
		.arg = video,
	};
	spawn_sandboxed(&program.spawn, arena, video->user, server->home, NULL, NULL);
	video->progress =
		(struct source){ .fd = ours, .ready = read_progress, .done = forget_progress };
	atomic_store(&video->refs, 3);
	video->progress_open = true;
	if (pump_add(&video->progress, err) < 0) {
		atomic_store(&video->refs, 1);
		return -1;
	}
	(void)TAKE_FD(ours);
	video->program = program_start(&program, err);
	if (video->program)
		return 0;
	atomic_fetch_sub(&video->refs, 1); /* the program's */
	pump_drop(&video->progress);
	return -1;
}

struct video *video_start(const struct server *server, const struct video_spec *spec,
			  struct err *err)
{
	const struct user *user = user_sandbox(server->config->user, err);
	auto_release struct place place = { 0 };
	struct arena arena = { 0 };
	if (!user)
		return NULL;
	struct video *video = xcalloc(1, sizeof *video);
	pthread_mutex_init(&video->lock, NULL);
	video->refs = 1;
	video->user = user;
	video->ended = spec->ended;
	video->arg = spec->arg;
	video->fps = spec->fps;
	video->seconds = spec->seconds < SECONDS_MAX ? spec->seconds : SECONDS_MAX;
	video->last_us = -1;
	int result = make_file(video, spec->path, &place, err);
	snprintf(video->path, sizeof video->path, "%s", place.path);
	if (result == 0 && start_program(video, server, spec, &arena, err) < 0) {
		remove_empty(video);
		result = -1;
	}
	arena_done(&arena);
	if (result == 0)
		return video;
	video_unref(video);
	return NULL;
}

int video_await(struct video *video, const struct wait *wait, struct err *err)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&video->lock);
	while (video->last_us < 0 && !video->over && wake == WAKE_READY)
		wake = wait_change(wait, &video->lock, &video->waiters, NULL);
	bool begun = video->last_us >= 0, over = video->over;
	char why[sizeof((struct video_info *)0)->why];
	if (over && !begun)
		say_why(video, why, sizeof why);
	pthread_mutex_unlock(&video->lock);
	if (begun || wake != WAKE_READY)
		return begun ? 0 : wake_err(wake, err);
	remove_empty(video);
	return err_set(err, ERR_BAD_REQUEST, "%s", why);
}

/* ---- later ---- */

static int64_t size_of(const struct video *video)
{
	struct user_view view;
	struct stat st;
	if (user_enter(video->user, &view, NULL) < 0)
		return -1;
	int64_t size = stat(video->path, &st) == 0 ? st.st_size : -1;
	user_leave(&view);
	return size;
}

void video_look(struct video *video, struct video_info *ret)
{
	*ret = (struct video_info){ .bytes = size_of(video) };
	pthread_mutex_lock(&video->lock);
	ret->ended = video->over;
	ret->failed = has_failed(video);
	ret->frames = video->frames;
	if (video->last_us >= 0) /* the last picture is shown for a while, too */
		ret->seconds = (double)video->last_us / 1e6 + 1.0 / (double)video->fps;
	if (ret->failed)
		say_why(video, ret->why, sizeof ret->why);
	pthread_mutex_unlock(&video->lock);
}

/* Once only: a second signal would have ffmpeg leave the end of the file out. */
void video_ask_end(struct video *video)
{
	pthread_mutex_lock(&video->lock);
	bool asked = video->asked || video->over;
	video->asked |= !asked;
	pthread_mutex_unlock(&video->lock);
	if (!asked)
		program_terminate(video->program);
}

bool video_await_end(struct video *video, const struct wait *wait)
{
	enum wake wake = WAKE_READY;
	pthread_mutex_lock(&video->lock);
	while (!video->over && wake == WAKE_READY)
		wake = wait_change(wait, &video->lock, &video->waiters, NULL);
	bool over = video->over;
	pthread_mutex_unlock(&video->lock);
	return over;
}

void video_end(struct video *video)
{
	const struct wait wait = { clock_ms() + GRACE_MS, -1, -1 };
	video_ask_end(video);
	if (video_await_end(video, &wait))
		return;
	program_end(video->program, 0, NULL);
	(void)video_await_end(video, &(struct wait){ clock_ms() + KILLED_MS, -1, -1 });
}
