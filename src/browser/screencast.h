/* screencast.h - what a tab shows, as pictures: one whenever it changes. One at a time per tab. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"

struct err;
struct tab;

/* A larger page is made smaller. */
enum { SCREENCAST_SIDE_MAX = 1920, SCREENCAST_PICTURE_MAX = 16 << 20 };

/* Begins it, and waits for the first picture, whose size it returns. quality: of each JPEG, 0 to 100. */
int screencast_start(struct tab *tab, int64_t quality, int *ret_width, int *ret_height,
		     const struct wait *wait, struct err *err);
void screencast_stop(struct tab *tab);

/* The rest with the tab's lock; who waits for the tab is woken by every picture. */

/* The latest picture in base64, which is the caller's now; NULL: it has been taken already. */
char *screencast_take(struct tab *tab);
bool screencast_has(const struct tab *tab);

/* To be called several times a second: asks for the picture that the browser may have left out. */
void screencast_settle(struct tab *tab);

/* Forgets what was shown so far: the next picture is one of what is shown from now on. */
void screencast_renew(struct tab *tab);
