/* ready.h - how to see that a program that was just started can be used. Nothing here sleeps and hopes:
 * the program's end is noticed at once, and a probe is repeated every few milliseconds. */
#pragma once
#include "base/wait.h"

struct program;

enum ready_how {
	READY_AT_ONCE, /* as soon as it runs */
	READY_LINE,    /* it has written a line to the other end of fd; no byte beyond is read */
	READY_UNIX,    /* the Unix socket at path accepts a connection */
	READY_TCP,     /* so does the port `number` of 127.0.0.1 */
	READY_DISPLAY, /* so does the X display `number`, at its Unix socket */
};

struct ready {
	enum ready_how how;
	int fd;
	const char *path;
	int number;
};

/* Waits until it is ready. WAKE_LEFT: the program has ended. program may be NULL. */
enum wake ready_wait(const struct ready *ready, struct program *program, const struct wait *wait);
