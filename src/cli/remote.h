/* remote.h - a command's conversation with the host: found through its state directory. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_request;
struct err;

struct remote {
	const char *state; /* --state */
	bool json;         /* --json: print answers as they are */
	char url[300], token[128];
	int64_t within_ms; /* how long a call may take; 0: as long as it likes */
	char *box[3];      /* from remote_box(): then calls are the box's; NULL: the host's */
};

/* The state directory where --state is absent. */
const char *remote_state(void);

/* Finds the host's address and token: AIO_URL and AIO_HOST_TOKEN, else in its state directory. */
int remote_find(struct remote *remote, struct err *err);

/* What went wrong, from an answer: {"message": …}, {"detail": …} or FastAPI's list. */
void remote_error(int status, const json_t *answer, struct err *err);

/* Calls the host, body may be NULL (given up): `data` of its answer, new, or NULL with err. */
json_t *remote_call(const struct remote *remote, const char *method, const char *path, json_t *body,
		    struct err *err);

/* The same for a request of any kind; its headers are ours. */
json_t *remote_send(const struct remote *remote, const struct client_request *given,
		    struct err *err);

/* Gives the answer of a GET to `sink` as it comes, until it ends. */
typedef void remote_sink(void *arg, const char *data, size_t len);
int remote_stream(const struct remote *remote, const char *path, remote_sink *sink, void *arg,
		  struct err *err);

/* "Authorization: Bearer …" and "x-aio-sandbox: ID" for a box that can be spoken to;
 * free() all three of ret. */
int remote_box(const struct remote *remote, const char *id, char *ret[3], struct err *err);
