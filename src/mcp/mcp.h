/* mcp.h - the Model Context Protocol of a server: its beginning and its end. */
#pragma once

struct server;

void mcp_setup(struct server *server);

/* Ends sessions, calls that still run, and other servers' programs. */
void mcp_end(void);
