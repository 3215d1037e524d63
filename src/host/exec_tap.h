/* exec_tap.h - what a request that runs something asks for, read from the first bytes of its body. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum {
	EXEC_TAP_MAX = 16384, /* bytes of a body that are looked at */
	EXEC_TAP_CHARACTERS = 200,
	EXEC_TAP_ROOM = 4 * EXEC_TAP_CHARACTERS + 8,
};

/* Whether the first message of a WebSocket is there as a whole. */
bool exec_tap_whole(const char *data, size_t len);

/* The command or code in a JSON body, or with `frame` in the first message of a WebSocket: the first
 * characters of it, without secrets; "" if there is none, or it is not all there. May change the data. */
void exec_tap_read(char *data, size_t len, bool frame, char to[EXEC_TAP_ROOM]);
