/* rfb_release.h - letting go of the mouse for a VNC client that has left: the server lets go of its keys, and
 * leaves buttons down until another client moves the mouse. */
#pragma once
#include "base/wait.h"

struct gui;

/* fd: a new connection to the server, which stays the caller's. */
void rfb_release(int fd, struct gui *gui, const struct wait *wait);
