/* display_door.h - the socket of the X server before there is one: whoever connects to it has the desktop
 * started, and is served once that is there. */
#pragma once
#include <stdbool.h>

struct err;
struct user;

/* Makes the socket as the user, unless it is there, and waits for somebody to connect: then the pump calls
 * knock(). False: the desktop cannot be started now, and they are turned away. To be called again when the X
 * server has ended. */
int door_open(const struct user *user, int number, bool (*knock)(void), struct err *err);

/* Whether there is a socket, by whatever name. */
bool door_is_open(void);

/* A descriptor of it for the X server, which the caller closes; -1: there is none, or its name leads
 * elsewhere by now. */
int door_fd(void);

/* Removes it. */
void door_close(void);
