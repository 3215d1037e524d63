/* preview_page.h - what people are shown where there is no preview: why, and which ports there are. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct listening;
struct upstream;

/* Reads the page from the product's files. To be called once, before a server runs; without it people get
 * the same errors as programs, which the log says. */
void preview_page_load(const char *home);

struct preview_failure {
	const struct upstream *upstream;
	int status;
	bool again;       /* the page tries again by itself */
	const char *text; /* what is wrong */
	const struct listening *ports;
	size_t count;
	/* What the addresses of other ports begin and end with, for links: "/proxy/" and "/". NULL:
	 * there are no such addresses. */
	const char *before, *after;
};

/* Answers a person with the page. False: it is not a person, or there is no page. */
bool preview_page_show(const struct preview_failure *failure);
