/* places.h - who answers a request to the host: a box, or the host itself. Pure. */
#pragma once
#include <stdbool.h>

struct address;

enum place {
	TO_BOX,
	TO_HOST,    /* the lifecycle API: it looks at credentials itself */
	TO_PAGE,    /* the product's own pages, from the host's own files: no box can forge them */
	TO_TICKETS, /* credentials of a box, which only the host can make and check */
};

/* By its path and its address. */
enum place places_find(const char *path, const struct address *address);

/* Whether what answers in TO_TICKETS has this flag of route.h. */
bool places_ticket_is(const char *path, unsigned flag);

/* Whether people open this path: it is a page of the product, of the host or of a box. */
bool places_is_page(const char *path);
