/* own_box.h - a box that lives as long as this process: made by it, deleted with it. Should the
 * process be killed, the host deletes the box once its time is no longer renewed. */
#pragma once
#include <jansson.h>
#include <pthread.h>

#include "cli/remote.h"

struct err;

struct own_box {
	struct remote remote;
	char *id;
	double seconds; /* how long it outlives the process */
	int stop;       /* readable: renew no more */
	pthread_t renewing;
};

/* Makes a box as `fields` say (as POST /v1/sandboxes; given up), and keeps it. */
int own_box_make(struct own_box *own, const struct remote *remote, json_t *fields, struct err *err);

/* Deletes it. */
void own_box_end(struct own_box *own);
