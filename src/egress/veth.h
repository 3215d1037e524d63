/* veth.h - network 'full': a pair of interfaces, one end in the box, and the rules that keep it from
 * the machine, from other boxes and from what is not public. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { VETH_MAX = 16384 };

/* host: differs between hosts of a machine, each of which has names and rules of its own. */

/* number: of the box, below VETH_MAX and its own; pid: a process in its network; nets: networks that
 * may be reached though they are not public, or NULL. */
int veth_open(uint32_t host, unsigned number, pid_t pid, const char *nets, struct err *err);

/* Removes both ends; fine when there are none. */
int veth_close(uint32_t host, unsigned number, struct err *err);
