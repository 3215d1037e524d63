/* mcp_relay.h - standard input and output of an MCP client, connected to the /mcp of a box. */
#pragma once

struct remote;

/* Relays one message of JSON-RPC a line, in both directions, until the input has ended and all
 * requests are answered, the client is gone, or `signals` (a signalfd) is readable. `box` holds the
 * headers of remote_box(). */
void mcp_relay(const struct remote *remote, char *const box[], int signals, int in, int out);
