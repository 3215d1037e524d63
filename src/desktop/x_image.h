/* x_image.h - the picture of the whole screen, in memory that the X server writes into. */
#pragma once
#include "base/wait.h"
#include "desktop/picture.h"

struct err;
struct x;
struct x_image;

struct x_image *x_image_new(struct x *x);
void x_image_free(struct x_image *image); /* NULL is fine */

/* The screen as it is now, the caller's until x_image_give(); another program may write into it meanwhile. */
int x_image_take(struct x_image *image, struct picture *ret, const struct wait *wait,
		 struct err *err);
void x_image_give(struct x_image *image);
