/* passage.h - a client of the forward proxy and the server it is connected to: one request and its response, or
 * the bytes of a tunnel. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/desc.h"
#include "net/head.h"

struct conn;

struct passage {
	struct conn *conn; /* whose request it is */
	int fd;            /* of the server: taken over */
	const char *who;   /* the server, for errors */
	bool by_proxy;     /* it is a proxy of ours: a 407 is not for the client */
};

/* Passes the request on, with its head written so, and the response back, or answers the client why not. False: a
 * proxy of ours has asked for other credentials; nothing was answered. */
bool passage_request(const struct passage *passage, const struct head_forward *head);

/* Passes bytes both ways until one side ends: those that the client has sent behind its CONNECT, and `early` of the
 * server, come first. stale_fd: see relay_drive.h. */
void passage_tunnel(const struct passage *passage, struct text early, int stale_fd);
