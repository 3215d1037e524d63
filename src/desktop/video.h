/* video.h - an MP4 that ffmpeg makes, as the sandbox user.
 *
 * The file is made of fragments of a second: it can be played at any moment, also after a crash. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct server;
struct video;

struct video_spec {
	const char *path;        /* absolute; missing directories are made, a file is replaced */
	const char *const *from; /* ffmpeg's arguments for what is filmed; ends with NULL */
	const char *filter;      /* ffmpeg's, for each picture; NULL: none */
	int64_t fps, crf;        /* crf: of H.264, 0 is lossless, 51 the worst */
	double seconds;          /* how long it may become */
	int in;                  /* its standard input, which stays the caller's; -1: none. With the
				   * end of that the video ends, too */
	void (*ended)(void *arg); /* called once it has ended, by the pump's thread; may be NULL */
	void *arg;
};

/* A filter for the spec: all of each picture, as large as it fits, with black around it. */
void video_fit(char *to, size_t room, int width, int height);

struct video_info {
	bool ended, failed;
	double seconds; /* that have been filmed */
	int64_t frames; /* that the file has, or is about to have */
	int64_t bytes;  /* of the file; -1: it is not there */
	char why[300];  /* how it has failed */
};

/* Starts it. NULL with err: that ffmpeg is not installed, that the file cannot be written, and so on. */
struct video *video_start(const struct server *server, const struct video_spec *spec,
			  struct err *err);

/* Waits until the first picture has been filmed. */
int video_await(struct video *video, const struct wait *wait, struct err *err);

void video_look(struct video *video, struct video_info *ret);

/* Waits for one that ends by itself, with its input. False: it has not. */
bool video_await_end(struct video *video, const struct wait *wait);

/* Has it end in order, without waiting; and waits until the file is whole. */
void video_ask_end(struct video *video);
void video_end(struct video *video);

/* It goes on until it is ended, or has become as long as it may. */
struct video *video_ref(struct video *video);
void video_unref(struct video *video); /* NULL is fine */
