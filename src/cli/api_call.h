/* api_call.h - one call of a sandbox's API: a verb's request, sent. */
#pragma once
#include "net/client.h"

struct api_wish;
struct endpoint;
struct err;

/* Sends it on a new connection: the status of the answer, whose body is to be read, or -1. The connection is to be
 * closed in any case. */
int api_call(const struct api_wish *wish, const struct endpoint *at, struct client *client,
	     struct err *err);
