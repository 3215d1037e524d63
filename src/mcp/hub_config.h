/* hub_config.h - which other MCP servers there are: the usual file with "mcpServers", and those that
 * this product knows by itself. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "mcp/hub_client.h"

struct config;
struct server;

struct hub_entry {
	struct hub_entry *next;
	struct hub_spec spec;
	char *problem; /* why it cannot be used at all; NULL: nothing */
	char *hint;    /* how to install it; NULL: none is known */
	bool disabled, hidden;
	int64_t timeout_ms; /* for a call */
};

/* The file. */
const char *hub_config_path(const struct config *config);

/* The servers of the file, then ours; NULL: none. */
struct hub_entry *hub_config_read(struct server *server);

/* Those of a file's text, which is changed; what is wrong with the text is an entry's problem. */
struct hub_entry *hub_config_parse(char *text, size_t len);
void hub_entry_free(struct hub_entry *entry); /* this one alone */
