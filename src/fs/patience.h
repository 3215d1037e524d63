/* patience.h - how long to go on with something that may take long: until a moment, until the client
 * leaves, until the server stops. */
#pragma once
#include <stdint.h>

struct err;

struct patience {
	int64_t until_ms;       /* of clock_ms() */
	int stop_fd, client_fd; /* readable; hung up. 0: none */
	int64_t looked_ms;      /* its own: when it last looked */
};

/* To be asked often. 0 to go on; -1 with ERR_SLOW, ERR_GONE or ERR_UNAVAILABLE. */
int patience_check(struct patience *patience, struct err *err);
