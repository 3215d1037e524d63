/* intercept.h - what becomes of the requests of all tabs: headers that are added, routes that answer them,
 * fail them or change them.
 *
 * The rules are the sandbox's: they hold for tabs and frames to come, and for the next browser after one
 * that was closed for being idle or has crashed. Requests are held up by the browser (Fetch.enable) only
 * while there are routes or scoped headers, and answered by the reader's thread at once. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/desc.h"
#include "base/wait.h"

struct browser;
struct err;
struct tab;

enum {
	ROUTES_MAX = 200,
	ROUTE_BODY_MAX = 10 << 20,
	ROUTE_BODIES_MAX = 64 << 20, /* of all routes */
};

enum route_action { ROUTE_CONTINUE, ROUTE_FULFILL, ROUTE_ABORT };

struct intercept_route {
	const char *pattern; /* url_pattern.h */
	enum route_action action;
	/* ROUTE_FULFILL */
	int64_t status;
	const char *content_type; /* unless a header says it; NULL: none */
	struct text body;
	struct list
		headers; /* pairs: of the response, or, of ROUTE_CONTINUE, added to the request */
	/* ROUTE_CONTINUE; NULL: as it was */
	const char *method;
	const struct text *post_data;
};

/* Each returns when the tab that is given acts by it. The newest route that matches counts; one takes the
 * place of another of the same pattern. -1 with ERR_INVALID, ERR_LIMIT or what the browser said. */
int intercept_add(struct tab *tab, const struct intercept_route *route, const struct wait *wait,
		  struct err *err);

/* ERR_NOT_FOUND: there is none of that pattern. */
int intercept_remove(struct tab *tab, const char *pattern, const struct wait *wait,
		     struct err *err);

/* Takes the place of all headers that were set so; none: requests are as they were. */
int intercept_set_headers(struct tab *tab, const struct list *headers, const struct wait *wait,
			  struct err *err);

/* The same for the requests to an origin ("https://api.test", "api.test:8080") or of a URL pattern. */
int intercept_set_scoped_headers(struct tab *tab, const char *origin, const struct list *headers,
				 const struct wait *wait, struct err *err);

/* There are no rules any more. For a browser that is about to end. */
void intercept_forget(void);

/* -1 with ERR_INVALID, naming it: not a name or a value that a request may have; with `request`, also one
 * that only the browser itself may set. */
int intercept_check_headers(const struct list *headers, bool request, struct err *err);
