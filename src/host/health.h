/* health.h - whether the server of a box is there. */
#pragma once
#include <stdbool.h>

/* Asks it. False: it has ended, or closes its connections. One that is there but does not answer is waited for
 * some seconds. state_fd: of the host's state directory. */
bool health_check(int state_fd, const char *id);
