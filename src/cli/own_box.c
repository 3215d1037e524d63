#include "cli/own_box.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/wait.h"

enum { OUTLIVES_S = 120, OUTLIVES_MIN_S = 3, CALL_MS = 10000, PAUSE_MOST_MS = 3600000 };

static char *path_of(const struct own_box *own, const char *what)
{
	return xasprintf("/v1/sandboxes/%s%s", own->id, what);
}

/* Three times within its time: one call that fails does not end it. */
static void *renew(void *arg)
{
	struct own_box *own = arg;
	auto_free char *path = path_of(own, "/timeout");
	bool failing = false;
	double pause = own->seconds * 1000 / 3;
	while (!wait_until(own->stop, POLLIN,
			   clock_ms() + (pause < PAUSE_MOST_MS ? (int)pause : PAUSE_MOST_MS))) {
		struct err err;
		json_t *done = remote_call(&own->remote, "POST", path,
					   json_pack("{sf}", "timeout", own->seconds), &err);
		if (!done && !failing)
			fprintf(stderr, "aio mcp: the time of box '%s' cannot be renewed: %s\n",
				own->id, err.msg);
		failing = !done;
		json_decref(done);
	}
	return NULL;
}

static void mark(struct own_box *own, json_t *fields)
{
	json_t *labels = json_object_get(fields, "metadata"), *time;
	if (!labels) {
		labels = json_object();
		json_object_set_new(fields, "metadata", labels);
	}
	json_object_set_new(labels, "made_by", json_string("aio mcp"));
	time = json_object_get(fields, "timeout");
	own->seconds = time ? json_number_value(time) : OUTLIVES_S;
	if (own->seconds > 0 && own->seconds < OUTLIVES_MIN_S) /* 0: the host does not delete it */
		own->seconds = OUTLIVES_MIN_S;
	json_object_set_new(fields, "timeout", json_real(own->seconds));
	json_object_set_new(fields, "auto_resume", json_true());
}

int own_box_make(struct own_box *own, const struct remote *remote, json_t *fields, struct err *err)
{
	*own = (struct own_box){ .remote = *remote, .stop = -1 };
	own->remote.within_ms = CALL_MS;
	mark(own, fields);
	json_t *box = remote_call(remote, "POST", "/v1/sandboxes", fields, err);
	const char *id = json_string_value(json_object_get(box, "id"));
	if (id)
		own->id = xstrdup(id);
	else if (box)
		err_set(err, ERR_UNAVAILABLE, "'%s' is not a host: it made no box", remote->url);
	json_decref(box);
	if (!own->id)
		return -1;
	if (own->seconds == 0)
		return 0;
	own->stop = eventfd(0, EFD_CLOEXEC);
	if (own->stop >= 0 && thread_start_joinable(&own->renewing, renew, own) == 0)
		return 0;
	own_close(&own->stop);
	own->stop = -1;
	own_box_end(own);
	return err_set(err, ERR_LIMIT, "no thread to keep the box with");
}

void own_box_end(struct own_box *own)
{
	struct err err;
	if (own->stop >= 0) {
		(void)eventfd_write(own->stop, 1);
		pthread_join(own->renewing, NULL);
		own_close(&own->stop);
	}
	auto_free char *path = path_of(own, "");
	json_t *done = remote_call(&own->remote, "DELETE", path, NULL, &err);
	if (!done && err.code != ERR_NOT_FOUND)
		fprintf(stderr, "aio mcp: box '%s' was not deleted (%s): %s\n", own->id,
			own->seconds > 0 ? "the host does so when its time is over"
					 : "it stays until 'aio rm'",
			err.msg);
	json_decref(done);
	free(own->id);
}
