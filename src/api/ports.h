/* ports.h - the ports that programs of the sandbox listen on.
 *
 * Nobody watches them while nobody asks: whoever wants to know looks, which costs two files of /proc, and
 * adds what has changed since the last look to the journal. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/listening.h"

struct arena;
struct server;

enum { PORTS = 65536, PORTS_SHOWN_MAX = 256 };

/* Clears, of PORTS flags, those on which this server, its kernels and its browser listen themselves. */
void ports_forget_own(const struct server *server, bool *listening);

/* Looks, and adds PORT_OPENED and PORT_CLOSED events; where somebody has looked less than min_ms ago, that
 * counts. At most PORTS_SHOWN_MAX ports are known at a time. */
void ports_look(struct server *server, int min_ms);

/* The ports that are known since the last look, in the arena, sorted. */
size_t ports_list(struct arena *arena, struct listening **ret);
