/* requests.h - what a tab has asked of the network: a bounded log, and waiting for more of it.
 *
 * Of each hop of a redirect there is an entry. data: URLs are not requests. Names and values are the
 * page's and its servers' own, and cut where they are too long. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "browser/tab.h"

struct arena;
struct err;
struct url_pattern;

enum { REQUESTS_MAX = 1000, PAGES_MAX = 100, POST_DATA_MAX = 65536 };

/* Moments as the browser has them: seconds of a clock that never jumps. Of a stage that there was not,
 * both are negative. */
struct request_stages {
	double dns[2], connect[2], ssl[2], send[2]; /* begin and end */
	double headers;                             /* the header of the response is there */
};

/* Texts are never NULL. Where nothing is known yet, or never will be, they are "" and numbers 0. */
struct request_info {
	uint64_t number;                         /* 1, 2, …, of the tab */
	uint64_t redirected_from, redirected_to; /* their numbers; 0: none */
	uint64_t asked, answered; /* places in the order of what was reported: requests_latest() */
	uint64_t page;            /* request_page's; 0: before any */
	const char *id, *session, *frame, *loader; /* of the browser */
	const char *url, *method;
	const char *type; /* "document", "script", "fetch" …, "websocket" */
	const char *request_headers,
		*response_headers; /* JSON objects; several values of a name are
							 * lines of one string */
	const char *post_data;
	const char *status_text, *mime, *protocol, *remote_ip, *connection;
	const char *failure; /* "net::ERR_…" or words; "": it has not failed */
	int64_t status, remote_port;
	int64_t received;                    /* bytes of the body, decoded */
	int64_t encoded;                     /* bytes that came over the network, with the header */
	double started;                      /* seconds since 1970 */
	double begun_s, answered_s, ended_s; /* moments */
	struct request_stages stages;
	bool has_post_data, post_data_cut;
	bool from_cache, from_service_worker;
	bool sent, came; /* the headers are as they were sent, and as they came */
	bool canceled;
	bool done, guessed; /* guessed: its end was not reported, but must have come */
};

/* A document of the main frame. */
struct request_page {
	uint64_t number;
	const char *loader, *url;
	double started, begun_s;
	double dom_s, load_s; /* moments; 0: not yet */
};

/* How far what is reported has come, for requests_wait(). */
uint64_t requests_latest(struct tab *tab);

/* Waits for the first request that matches (url_pattern.h), or the first response, which comes after
 * `since`. What it points to is in the arena. -1 with ERR_INVALID: the pattern cannot be. */
int requests_wait(struct tab *tab, uint64_t since, const char *url_pattern, bool response,
		  struct arena *arena, struct request_info *ret, const struct wait *wait,
		  struct err *err);

/* The latest at most `max` whose URLs match (NULL: all), the oldest first, in the arena. */
size_t requests_list(struct tab *tab, const struct url_pattern *pattern, size_t max,
		     struct arena *arena, struct request_info **ret);

/* The pages that they are of, the oldest first. */
size_t requests_pages(struct tab *tab, struct arena *arena, struct request_page **ret);
