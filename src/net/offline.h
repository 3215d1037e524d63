/* offline.h - DNS in a sandbox without a network. Every name is answered at once with "no such name", so
 * that programs fail at once, and reported to the log, from which the host takes events. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/dns.h"

#define OFFLINE_REASON "this sandbox has no network"

/* The server at 127.0.0.1:53, where libc asks without an /etc/resolv.conf. -1: the port is taken. */
int offline_open(void);

/* Answers what has arrived. For one thread. */
void offline_answer(int fd);

/* A moment, and whether names were refused since then. 0 is one since which nothing was. */
uint64_t offline_moment(void);
bool offline_refused(uint64_t since);

/* Takes a report apart. False: the line is not one. */
bool offline_parse(const char *line, char ret_name[DNS_NAME_MAX + 1], int64_t *ret_times);
