/* mcp.h - the Model Context Protocol of a server: its beginning and its end. */
#pragma once

#include "mcp/resource.h"

void mcp_setup(struct server *server, resource_text *context);

/* Ends sessions, calls that still run, and other servers' programs. */
void mcp_end(void);
