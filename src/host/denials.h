/* denials.h - events of boxes without a network, of addresses that their programs try to reach
 * (egress/attempts.h). Names come another way: see tell_offline() of keeper.c. */
#pragma once
#include <stddef.h>

struct box;
struct host;

/* Where the kernel lets nobody see them, there are no such events. */
void denials_start(struct host *host);
void denials_stop(struct host *host);

/* A box runs now; it is about to end. Under its turn. */
void denials_watch(struct host *host, struct box *box);
void denials_forget(struct host *host, struct box *box);

/* Makes events of what these boxes have tried. For one thread. */
void denials_report(struct host *host, struct box **list, size_t count);
