/* record.h - the recording of the desktop: one at a time. While it goes on the desktop runs. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "desktop/video.h"

struct err;
struct server;

struct record_wish {
	const char *path;
	int64_t fps, crf;
	double seconds;
	int64_t width, height; /* INT_ABSENT: as the screen is */
};

enum record_state { RECORD_IDLE, RECORD_GOING, RECORD_STOPPED };
struct record_info {
	enum record_state state;
	char path[PATH_MAX];
	struct video_info video;
};

/* Returns when the first picture has been filmed. -1 with err: ERR_CONFLICT while another one goes on. */
int record_start(const struct server *server, const struct record_wish *wish,
		 const struct wait *wait, struct err *err);

/* Ends it, if it goes on: the file is whole then. */
int record_stop(const struct wait *wait, struct err *err);

/* Of the one that goes on, or of the last one. */
void record_look(struct record_info *ret);

/* Also while one starts. */
bool record_is_going(void);

/* The end of the server: has it end; and waits until it has. */
void record_ask_end(void);
void record_end(void);
