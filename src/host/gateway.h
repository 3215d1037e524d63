/* gateway.h - the host's front: epoll loops that frame every request and every answer, pick the box
 * of each, and relay between the client and that box's server. Nothing in a loop blocks; what a box
 * answers is taken for hostile. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/address.h"
#include "host/history.h"
#include "net/guard.h"

struct auth;
struct box;
struct boxes;
struct err;
struct sockaddr_un;

/* Where the server of a box listens. state_dir: of the host's state directory. */
struct sockaddr_un gateway_address(int state_dir, const char *id);

struct gateway_config {
	struct boxes *boxes;
	int listen_fd;           /* not blocking */
	int netns;               /* where the loops run, and connect to boxes: see netns.h */
	int state_dir;           /* below which the sockets are: of boxes, see gateway_address(), */
	const char *host_socket; /* and of the host's own server */
	const char *host_token;  /* that its server takes */
	const struct auth *host_auth;
	const char *host_hint;     /* where that token is */
	const struct auth *keys;   /* what the default box takes, and which key signs tokens */
	const struct auth *nobody; /* refuses as a box does, for those that are not there */
	struct guard guard;        /* of the listener */
	struct address_names names;
	size_t max_head;
	int64_t max_connections, max_streams; /* in all; to one box */
	int64_t idle_ms, head_ms, body_ms, send_ms;
	/* A box that is paused, or stopped, was asked for: the host is to bring it back. */
	void (*wake)(void *arg, struct box *box);
	/* Something for the history of a box; never blocks. */
	void (*event)(void *arg, struct box *box, enum history_kind kind, const void *data);
	void *arg;
};

struct gateway;

/* Starts the loops. config must outlive them. */
struct gateway *gateway_start(const struct gateway_config *config, int loops, struct err *err);

/* The state of a box has changed: requests that wait for it are looked at again. */
void gateway_notice(struct gateway *gateway);

/* Stops accepting, lets what is being answered finish for up to ms, ends the loops. */
void gateway_stop(struct gateway *gateway, int ms);
/* After that, once nobody is left who could call gateway_notice(). */
void gateway_free(struct gateway *gateway);
