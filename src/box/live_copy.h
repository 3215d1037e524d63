/* live_copy.h - copies of trees whose users stand still only for moments. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct files_copy;

/* Stops who may change the files, or lets them go on. Stopped, none is in the middle of a call. */
struct live_copy_users {
	int (*stop)(const void *arg, bool stopped, struct err *err);
	const void *arg;
};

/* Makes the copies, all of one moment. users: NULL if there are none now; they go on in any case. */
int live_copy(struct files_copy *const *copies, size_t count, const struct live_copy_users *users,
	      struct err *err);
