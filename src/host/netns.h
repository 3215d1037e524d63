/* netns.h - a network namespace with nothing in it, for the sockets that boxes hold: a socket tells
 * its holder of the interfaces of its namespace. That is the one of the thread that made it, or for
 * an accepted one the one of the side that connected. */
#pragma once

struct err;

/* A new one; close() it. */
int netns_open(struct err *err);

/* Calls fn in a thread of that namespace, where the threads that fn starts stay. */
int netns_call(int netns, int (*fn)(void *arg, struct err *err), void *arg, struct err *err);

/* A Unix stream socket of that namespace. */
int netns_socket(int netns, struct err *err);
