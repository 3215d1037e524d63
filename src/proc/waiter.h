/* waiter.h - threads that wait for something of an object to change: each owns an eventfd, and polls
 * it together with its caller's connection. The object's lock is held around all of this. */
#pragma once
#include <stddef.h>
#include <sys/eventfd.h>

struct waiter {
	int fd;
	struct waiter *next;
};

static inline void waiter_join(struct waiter **list, struct waiter *waiter)
{
	waiter->next = *list;
	*list = waiter;
}

static inline void waiter_leave(struct waiter **list, const struct waiter *waiter)
{
	while (*list && *list != waiter)
		list = &(*list)->next;
	if (*list)
		*list = waiter->next;
}

static inline void waiter_wake(struct waiter *list)
{
	for (; list; list = list->next)
		(void)eventfd_write(list->fd, 1);
}
