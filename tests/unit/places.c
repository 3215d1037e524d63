#include "host/places.h"

#include "base/own.h"
#include "host/address.h"
#include "net/route.h"
#include "tap.h"

static enum place find(const char *path, bool named, int port)
{
	return places_find(path, &(struct address){ .named = named, .port = port });
}

/* Where the plain address is the default box's own. */
static enum place own(const char *path)
{
	return places_find(path, &(struct address){ .own_origin = true });
}

static enum place plain(const char *path)
{
	return find(path, false, 0);
}

/* Whoever is named has it, but for credentials of its own. */
static bool is_named_ones(const char *path)
{
	return find(path, true, 0) == TO_BOX && find(path, true, 80) == TO_BOX &&
	       find(path, false, 80) == TO_BOX;
}

int main(void)
{
	static const char *const pages[] = { "/",
					     "/index.html",
					     "/v1/docs",
					     "/terminal",
					     "/openapi.json",
					     "/v1/openapi.json",
					     "/llms.txt",
					     "/favicon.ico",
					     "/static/",
					     "/static/web/docs/docs.js" };
	static const char *const host[] = { "/v1/sandboxes",           "/v1/sandboxes/",
					    "/v1/sandboxes/a/b",       "/v1/templates",
					    "/v1/templates/x/nowhere", "/v1/events" };
	static const char *const boxes[] = { "/v1/sandbox",
					     "/v1/sandboxesx",
					     "/v1/events/",
					     "/v1/docs/",
					     "/static",
					     "/Terminal",
					     "/%74erminal",
					     "/terminal/",
					     "",
					     "*",
					     "/tickets/",
					     "/.aio/sign-in/x",
					     "/proxy/80/v1/sandboxes" };
	for (size_t i = 0; i < COUNT(pages); i++) {
		CHECK(own(pages[i]) == TO_BOX && plain(pages[i]) == TO_PAGE &&
		      is_named_ones(pages[i]));
		CHECK(places_is_page(pages[i]) == (i < 4));
	}
	for (size_t i = 0; i < COUNT(host); i++)
		CHECK(own(host[i]) == TO_HOST && plain(host[i]) == TO_HOST &&
		      is_named_ones(host[i]));
	for (size_t i = 0; i < COUNT(boxes); i++)
		CHECK(plain(boxes[i]) == TO_BOX && is_named_ones(boxes[i]) &&
		      !places_is_page(boxes[i]));
	for (int named = 0; named < 2; named++) {
		CHECK(find("/tickets", named, 0) == TO_TICKETS);
		CHECK(find("/auth", named, 0) == TO_TICKETS);
		CHECK(find("/tickets", named, 80) == TO_BOX);
		CHECK(find("/.aio/sign-in", named, 0) == TO_TICKETS);
		CHECK(find("/.aio/sign-in", named, 80) == TO_TICKETS);
	}
	CHECK(places_ticket_is("/tickets", NO_TICKET) && !places_ticket_is("/tickets", PUBLIC));
	CHECK(places_ticket_is("/auth", PUBLIC) && !places_ticket_is("/auth", NO_TICKET));
	CHECK(!places_ticket_is("/.aio/sign-in", PUBLIC) && !places_ticket_is("/health", PUBLIC));
	return tap_done();
}
