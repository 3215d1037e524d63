/* hub.h - other MCP servers, whose tools are offered as ours: programs that speak on their standard
 * input and output, and servers on the network. They are started when first needed. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct config;
struct err;
struct exchange;
struct jw;
struct server;

/* What there is to say of a server. */
struct hub_info {
	const char *name, *kind, *status, *reason, *hint;
	bool hidden;
};

/* Starts nothing yet. A file that is wrong is a reason that every server shows, not an error. */
void hub_setup(struct server *server);
void hub_end(void);

/* The servers, in their order; texts live in the arena. */
size_t hub_list(struct arena *arena, struct hub_info *ret, size_t room);

/* Calls fn for every tool that others offer, with its name as it is listed. Servers that were never
 * asked are started and waited for a while. only: that server's; NULL: of all that are not hidden. */
typedef void hub_each_tool(const char *server, const char *name, const json_t *tool, void *arg);
void hub_tools(struct server *server, const char *only, hub_each_tool *fn, void *arg);

/* Whether that would have to wait for a server. */
bool hub_would_wait(const char *only);

/* The tools of one server, under their own names: a new list. NULL with why it is unavailable. */
json_t *hub_server_tools(struct server *server, const char *name, struct err *err);
bool hub_has(const char *name);

/* Calls a tool by its listed name, or of a server by its own. The result is new. An unknown tool is
 * an error of the exchange; whatever goes wrong with a known one is told in the result. */
int hub_call(struct exchange *ex, const char *server, const char *name, const json_t *args,
	     json_t **ret_result, struct err *err);
