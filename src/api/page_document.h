/* page_document.h - fields that calls on the page's document share. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "api/page_call.h"
#include "base/desc.h"

/* Seconds that a call may take. */
#define PAGE_TIMEOUT_FIELD(s)                                                              \
	NUM(s, timeout, MIN | MAX, "How long it may take, in seconds; 0 for the default.", \
	    .def = "30", .min = 0, .max = PAGE_TIMEOUT_MAX_MS / 1000.0)

static inline int64_t page_timeout_ms(double seconds)
{
	return isnan(seconds) ? INT_ABSENT : (int64_t)ceil(seconds * 1000);
}

/* Answers with JSON, which is taken; NULL: that it failed. */
int page_reply_json(struct call *call, struct page_call *page, json_t *value,
		    const struct err *cause, struct err *err);

/* Answers that it failed, with what a script of the caller's threw (NULL: nothing). */
int page_threw(struct call *call, struct page_call *page, const char *thrown,
	       const struct err *cause, struct err *err);

/* A bit of enum tab_reached, by the name that wait_until and wait's `state` have; 0: it is not one. */
unsigned page_reached(const char *name);
