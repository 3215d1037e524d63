/* x.h - our connection to the desktop's X server. Any thread may call these: one uses it at a time, the
 * others wait for their turn. */
#pragma once
#include <stdbool.h>

#include "base/wait.h"

struct err;
struct x;
struct x_link;

/* Connects to the X server of display `number` with its cookie of 16 bytes. */
struct x *x_open(int number, const unsigned char cookie[16], const struct wait *wait,
		 struct err *err);
void x_free(struct x *x);

/* The connection is lost: the X server has ended, or broke the protocol. */
bool x_broken(struct x *x);

/* Waits until a window manager runs, or `pidfd` says that its program has ended. */
int x_wait_manager(struct x *x, int pidfd, const struct wait *wait, struct err *err);

/* Whether a window is on the desktop. */
bool x_has_windows(struct x *x, const struct wait *wait);

/* How large the screen is now. */
struct x_size {
	int width, height;
};
int x_size(struct x *x, struct x_size *ret, const struct wait *wait, struct err *err);

int x_resize(struct x *x, unsigned width, unsigned height, const struct wait *wait,
	     struct err *err);

/* A further connection to the same server. -1 with err. */
int x_open_link(struct x *x, struct x_link *ret, const struct wait *wait, struct err *err);

/* A turn with the connection itself: for the other files of this folder. NULL: the wait was over. */
struct x_link *x_take(struct x *x, const struct wait *wait, struct err *err);
void x_give(struct x *x);
