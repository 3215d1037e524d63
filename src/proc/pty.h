/* pty.h - opening a pseudo-terminal. */
#pragma once

struct err;
struct user;

/* Opens a terminal: *ret_master is ours and does not block, *ret_slave is for the process. The
 * terminal takes UTF-8, and belongs to owner where that is another user (NULL: to us). ERR_LIMIT when
 * there may be no more terminals. */
int pty_open(const struct user *owner, int *ret_master, int *ret_slave, struct err *err);

int pty_resize(int fd, int cols, int rows); /* either end */
