/* proxy_pac.h - which hosts the browser reaches by a proxy, as a PAC file. */
#pragma once

struct arena;
struct config;

/* The file, in the arena: DIRECT for all where there is no proxy. */
const char *proxy_pac(const struct config *config, struct arena *arena);

/* It as a data: URL for the browser; NULL: there is no proxy. */
const char *proxy_pac_url(const struct config *config, struct arena *arena);
