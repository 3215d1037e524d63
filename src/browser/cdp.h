/* cdp.h - the DevTools protocol on a pair of pipes: calls and their answers by id, and events.
 *
 * One reader thread takes what the browser says. Answers wake their callers; events are handed on in
 * the order in which they came, without a lock of this file. An answer that is too large (64 MiB), or
 * nested too deeply, is skipped, and only its caller is told. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"

struct cdp;
struct err;

struct cdp_user {
	/* In the reader's thread, which must not wait: cdp_post() is fine, cdp_call() is not. session
	 * is "" for the browser's own events. params is borrowed, and never NULL. */
	void (*event)(void *arg, const char *session, const char *method, const json_t *params);
	/* Once, in the reader's thread: nothing comes any more. Calls fail from now on. */
	void (*lost)(void *arg);
	/* In the reader's thread, after events and at the moment of clock_ms() that it returned last
	 * (INT64_MAX: none): for what is due. NULL: nothing ever is. */
	int64_t (*due)(void *arg);
	void *arg;
};

/* in: what the browser reads; out: what it writes. Both stay the caller's. NULL with err: no thread. */
struct cdp *cdp_new(int in, int out, const struct cdp_user *user, struct err *err);

/* Ends the reader; both descriptors may be closed then. Calls fail from now on. */
void cdp_end(struct cdp *cdp);

/* Ends and frees it. Nobody is in a call any more. NULL is fine. */
void cdp_free(struct cdp *cdp);

/* Nothing comes any more: calls fail from now on. */
bool cdp_is_lost(struct cdp *cdp);

/* Calls a method of a session ("" or NULL: the browser's own), and waits for its answer: a new
 * reference of the result. params are taken, also on failure; NULL: none.
 * NULL with err: the wait was over, the connection is lost (ERR_UNAVAILABLE), or the browser refuses
 * (ERR_CONFLICT: its message, such as "Cannot find context with specified id"). */
json_t *cdp_call(struct cdp *cdp, const char *session, const char *method, json_t *params,
		 const struct wait *wait, struct err *err);

/* cdp_call() where only success counts. */
int cdp_ask(struct cdp *cdp, const char *session, const char *method, json_t *params,
	    const struct wait *wait, struct err *err);

/* Sends without waiting: nobody hears the answer. Never blocks: what the browser does not take is
 * queued, bounded; beyond that the connection is lost. -1: it is. */
int cdp_post(struct cdp *cdp, const char *session, const char *method, json_t *params);

/* Bytes that were sent and not taken by the browser yet. */
size_t cdp_queued(struct cdp *cdp);

/* cdp_post(), whose result is handed on like an event: its method is that of the call. */
int cdp_post_heard(struct cdp *cdp, const char *session, const char *method, json_t *params);

/* From now on calls of this session that `held` says yes to (NULL: all) fail at once with `why`, those
 * under way included, until cdp_release(): the page cannot answer, or will not for long. Asked under a
 * lock: held() is a question about a name. A second cdp_hold() takes the place of the first. */
void cdp_hold(struct cdp *cdp, const char *session, bool (*held)(const char *method),
	      const struct err *why);
void cdp_release(struct cdp *cdp, const char *session);

/* The calls of this session under way that `which` says yes to fail with `why`. */
void cdp_fail(struct cdp *cdp, const char *session, bool (*which)(const char *method),
	      const struct err *why);

/* The calls of this session that are under way fail with `why`: it is gone. Ends a cdp_hold(). */
void cdp_cut(struct cdp *cdp, const char *session, const struct err *why);
