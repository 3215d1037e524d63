/* tab_record.h - recordings of what tabs show: at most one of each tab. While it goes on the browser runs.
 *
 * Calls are about the current tab. Where that is not being recorded, they are about the latest recording of it,
 * or of a tab that is gone: so a caller whose tab was closed learns how it ended. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "desktop/video.h"

struct err;
struct server;
struct tab_record;

enum { TAB_RECORD_FPS_MAX = 30, TAB_RECORDS_MAX = 4, TAB_RECORD_SECONDS = 3600 };

struct tab_record_wish {
	const char *path;
	int64_t fps;
	int64_t quality; /* 0 to 100 */
	double seconds;  /* how long it may become, without its pauses */
};

enum tab_record_state { TAB_RECORD_IDLE, TAB_RECORD_GOING, TAB_RECORD_PAUSED, TAB_RECORD_ENDED };
struct tab_record_info {
	enum tab_record_state state;
	char path[PATH_MAX];
	char why[320]; /* it has ended; "" while it goes on */
	bool early;    /* that is not what was asked for */
	int64_t fps, width, height;
	struct video_info video;
};

/* Returns when the first picture has been recorded. NULL with err: ERR_CONFLICT while there is one of that
 * tab. To be given back by tab_record_unref(). */
struct tab_record *tab_record_start(const struct server *server, const struct tab_record_wish *wish,
				    const struct wait *wait, struct err *err);

/* The one that a call is about; NULL: there is none. To be given back likewise. */
struct tab_record *tab_record_current(void);

/* Says which other tab is being recorded; false: none is. */
bool tab_record_elsewhere(char *to, size_t room);

/* The pause is not in the file. -1 with ERR_CONFLICT: it has ended, or is as it should become. */
int tab_record_pause(struct tab_record *record, bool pause, struct err *err);

/* Waits until it has ended by itself. */
int tab_record_await(struct tab_record *record, const struct wait *wait, struct err *err);

/* Has it end, without waiting. */
void tab_record_ask_end(struct tab_record *record);

bool tab_record_is_going(struct tab_record *record);
void tab_record_look(struct tab_record *record, struct tab_record_info *ret);
void tab_record_unref(struct tab_record *record); /* NULL is fine; it goes on */

/* The end of the server: has all end; and waits until they have. */
void tab_records_ask_end(void);
void tab_records_end(void);
