/* stdio.h - an MCP server on two descriptors, one message on a line: for programs that start their
 * servers themselves. */
#pragma once

struct server;

/* Serves until the input ends and what was asked is answered, the client is gone, or a signal comes
 * (which the caller has blocked in all threads). 0, or -1 when it could not begin. */
int stdio_serve(struct server *server, int in, int out);
