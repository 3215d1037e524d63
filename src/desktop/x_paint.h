/* x_paint.h - waits until something is to be seen on the screen. */
#pragma once
#include "base/wait.h"

struct err;
struct x;
struct x_image;

/* Until the screen has more than one colour: a program that has just opened its window has not painted it
 * yet. -1 with err: the wait was over, or the X server failed. */
int x_await_paint(struct x *x, struct x_image *image, const struct wait *wait, struct err *err);
