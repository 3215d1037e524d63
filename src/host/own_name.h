/* own_name.h - where a browser is shown the pages of a box: at the box's own name, whose origin is the box's
 * alone. On an address that boxes share they would have no origin, and not work. */
#pragma once
#include <stdbool.h>

struct answer;
struct buf;
struct http_head;

/* Whether a path is one of the pages that need an origin: the first page, the desktop, the editor, the
 * notebook. */
bool own_name_is_page(const char *path);

/* Whether a browser opens a page in a window: not in a frame, and no program that asks for anything. */
bool own_name_is_visit(const struct http_head *head);

/* OWN_NAME_UNSURE: there is a name, but the browser may not know it. */
enum own_name { OWN_NAME_NONE, OWN_NAME_UNSURE, OWN_NAME_KNOWN };

/* Appends "//ID.NAME:PORT": the name of a box for the browser that sent this, below the domain (may be
 * NULL), or below localhost if the browser is on this machine. */
enum own_name own_name_find(const struct http_head *head, const char *domain, const char *id,
			    struct buf *to);

/* Reads the page of own_name_tell() from the product's home. */
void own_name_load(const char *home);

/* The page that says where another one is (to; "" if it has no address) and which options help; prefix:
 * before the host's own paths. False: the page was not found. */
bool own_name_tell(const char *to, const char *prefix, struct answer *ret, struct buf *ret_page);
