#include "host/places.h"

#include <string.h>

#include "api/routes.h"
#include "host/address.h"
#include "host/host.h"

const struct route_group *const host_groups[] = { &sandboxes_group,
						  &sandboxes_metrics_group,
						  &events_group,
						  &sandboxes_logs_group,
						  &templates_group,
						  &host_tickets_group,
						  &host_openapi_group,
						  &page_group,
						  NULL };

static const struct route_group *const tickets[] = { &host_tickets_group, NULL };
static const struct route_group *const pages[] = { &page_group, &host_openapi_group, NULL };

/* All below them is the host's, too, whether it is there or not. */
static const char *const lifecycle[] = { "/v1/sandboxes", "/v1/templates" };

static bool is_lifecycle(const char *path)
{
	for (size_t i = 0; i < COUNT(lifecycle); i++) {
		size_t len = strlen(lifecycle[i]);
		if (!strncmp(path, lifecycle[i], len) && (!path[len] || path[len] == '/'))
			return true;
	}
	return !strcmp(path, "/v1/events");
}

enum place places_find(const char *path, const struct address *address)
{
	if (route_flagged(tickets, address->port ? ANY_NAME : 0, path))
		return TO_TICKETS;
	if (address->named || address->port)
		return TO_BOX;
	if (is_lifecycle(path))
		return TO_HOST;
	if (address->own_origin)
		return TO_BOX;
	/* All of it, also what no page can be: no box answers at an address of the host's files. */
	if (!strncmp(path, "/static/", 8))
		return TO_PAGE;
	return route_flagged(pages, 0, path) ? TO_PAGE : TO_BOX;
}

bool places_ticket_is(const char *path, unsigned flag)
{
	return route_flagged(tickets, flag, path);
}

bool places_is_page(const char *path)
{
	return route_flagged(pages, PAGE, path);
}
