/* forward.h - the forward proxy of the sandbox: one request of a program, passed on as outbound.h says.
 *
 * http:// requests are relayed one by one, CONNECT (for https, WebSockets and any other protocol) as bytes.
 * It connects as the sandbox user, from the sandbox's network: it reaches what its callers reach. */
#pragma once

struct conn;

/* Serves the request whose head conn->http holds. */
void forward_serve(struct conn *conn);

/* What requests go by has changed: tunnels that would go elsewhere now end once they are idle. */
void forward_changed(void);
