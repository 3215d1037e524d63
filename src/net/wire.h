/* wire.h - the headers by which clients, the host and the servers of boxes understand each other. */
#pragma once

#define WIRE_OURS    "X-AIO-"           /* how all of them begin: none is passed on as it came */
#define WIRE_KEY     "X-AIO-API-Key"    /* a credential; from the gateway, that it is the gateway */
#define WIRE_PORT    "X-AIO-Proxy-Port" /* the port of a program in the sandbox */
#define WIRE_SANDBOX "X-AIO-Sandbox"    /* which box, to the host */
#define WIRE_VIEW    "X-AIO-View"       /* from the gateway to a box: the caller may only look */
#define WIRE_TICKET  "X-AIO-Ticket"     /* from the gateway to a box: for URLs in the answer */
#define WIRE_BOX     "X-AIO-Box"        /* which box, from the gateway to the host's own server */
