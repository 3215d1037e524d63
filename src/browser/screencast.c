/* The browser sends at most three pictures that have not been acknowledged. One that it makes meanwhile it
 * leaves out, and does not send later: the last state of a page that has just moved a lot could be missing.
 * So each picture is acknowledged at once, however many a video takes of them, and once a page has come to
 * rest the screencast is begun again, which gives one more picture. */
#include "browser/screencast.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/browser_state.h"
#include "browser/cdp.h"
#include "browser/cdp_params.h"
#include "browser/tab_events.h"

enum { REST_MS = 400 };

struct screencast {
	int64_t quality;
	char *picture;       /* NULL: it was taken, or there was none */
	uint64_t hash;       /* of the latest one */
	int width, height;   /* of the page */
	int64_t changed_ms;  /* when there was one that differs; 0: settled since */
	int64_t first, last; /* the browser's number of our first screencast, and of the latest */
	int64_t wanted;      /* pictures of earlier ones are of no interest */
};

static void free_screencast(struct tab *tab)
{
	if (tab->screencast)
		free(tab->screencast->picture);
	free(TAKE(tab->screencast));
}

static json_t *params_of(const struct screencast *cast)
{
	return json_pack("{s:s, s:I, s:i, s:i, s:i}", "format", "jpeg", "quality",
			 (json_int_t)cast->quality, "maxWidth", SCREENCAST_SIDE_MAX, "maxHeight",
			 SCREENCAST_SIDE_MAX, "everyNthFrame", 1);
}

/* ---- what is reported ---- */

/* FNV-1a: two pictures in a row of a page that stands still are the same, byte by byte. */
static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
	return hash;
}

static int side_of(const json_t *metadata, const char *key)
{
	double side = json_number_value(json_object_get(metadata, key));
	return side >= 1 && side < 1e6 ? (int)lround(side) : 0;
}

static void keep_picture(struct screencast *cast, const json_t *params, int64_t number)
{
	const json_t *data = json_object_get(params, "data");
	const json_t *metadata = json_object_get(params, "metadata");
	size_t len = json_string_length(data);
	if (!len || len / 4 * 3 > SCREENCAST_PICTURE_MAX)
		return;
	if (!cast->first)
		cast->first = cast->last = number;
	uint64_t hash = hash_of(json_string_value(data), len);
	if (number < cast->wanted || hash == cast->hash)
		return;
	free(cast->picture);
	cast->picture = xstrndup(json_string_value(data), len);
	cast->hash = hash;
	cast->changed_ms = clock_ms();
	cast->width = side_of(metadata, "deviceWidth");
	cast->height = side_of(metadata, "deviceHeight");
}

static void take_frame(struct tab *tab, const char *session, const json_t *params)
{
	int64_t number = cdp_int(params, "sessionId");
	if (!tab->screencast || strcmp(session, tab->session) != 0)
		return;
	(void)cdp_post(tab->browser->cdp, session, "Page.screencastFrameAck",
		       json_pack("{s:I}", "sessionId", (json_int_t)number));
	keep_picture(tab->screencast, params, number);
}

static const struct tab_event rows[] = { { "Page.screencastFrame", take_frame } };
const struct tab_events screencast_events = { .rows = rows,
					      .count = COUNT(rows),
					      .free = free_screencast };

/* ---- for who records ---- */

static bool is_begun(struct tab *tab, void *arg, int64_t *again)
{
	(void)arg;
	(void)again;
	return tab->screencast && tab->screencast->width && tab->screencast->height;
}

/* The first picture, and how large the page is, as the browser makes it fit. */
static void fit(const struct screencast *cast, int *ret_width, int *ret_height)
{
	int longer = cast->width > cast->height ? cast->width : cast->height;
	double scale = longer > SCREENCAST_SIDE_MAX ? (double)SCREENCAST_SIDE_MAX / longer : 1;
	*ret_width = (int)ceil(cast->width * scale);
	*ret_height = (int)ceil(cast->height * scale);
}

int screencast_start(struct tab *tab, int64_t quality, int *ret_width, int *ret_height,
		     const struct wait *wait, struct err *err)
{
	struct screencast *cast = xcalloc(1, sizeof *cast);
	cast->quality = quality;
	pthread_mutex_lock(&tab->lock);
	free_screencast(tab);
	tab->screencast = cast;
	pthread_mutex_unlock(&tab->lock);
	if (tab_ask(tab, "Page.startScreencast", params_of(cast), wait, err) == 0 &&
	    tab_wait(tab, is_begun, NULL, wait, err) == 0) {
		pthread_mutex_lock(&tab->lock);
		fit(cast, ret_width, ret_height);
		pthread_mutex_unlock(&tab->lock);
		return 0;
	}
	if (err->code == ERR_SLOW)
		err_set(err, ERR_SLOW, "the page has not been drawn in time");
	screencast_stop(tab);
	return -1;
}

void screencast_stop(struct tab *tab)
{
	pthread_mutex_lock(&tab->lock);
	free_screencast(tab);
	bool closed = tab->closed;
	pthread_mutex_unlock(&tab->lock);
	if (!closed)
		(void)cdp_post(tab->browser->cdp, tab->session, "Page.stopScreencast", NULL);
}

char *screencast_take(struct tab *tab)
{
	return tab->screencast ? TAKE(tab->screencast->picture) : NULL;
}

bool screencast_has(const struct tab *tab)
{
	return tab->screencast && tab->screencast->picture;
}

/* Each one that is begun has the next number. */
static void begin_again(struct tab *tab)
{
	struct screencast *cast = tab->screencast;
	cast->last++;
	(void)cdp_post(tab->browser->cdp, tab->session, "Page.stopScreencast", NULL);
	(void)cdp_post(tab->browser->cdp, tab->session, "Page.startScreencast", params_of(cast));
}

void screencast_settle(struct tab *tab)
{
	struct screencast *cast = tab->screencast;
	if (!cast || tab->closed || !cast->changed_ms || clock_ms() - cast->changed_ms < REST_MS)
		return;
	cast->changed_ms = 0;
	begin_again(tab);
}

void screencast_renew(struct tab *tab)
{
	struct screencast *cast = tab->screencast;
	if (!cast || tab->closed)
		return;
	free(TAKE(cast->picture));
	cast->hash = 0;
	begin_again(tab);
	cast->wanted = cast->last;
}
