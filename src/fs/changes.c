#include "fs/changes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/own.h"

enum {
	BATCH_ROOM = 256 * 1024, /* bytes that are looked at together */
	MATE_EVENTS = 64,        /* within which the other half of a rename is found */
	MATE_MS = 100, /* for which who renames may be between the two halves, on a busy machine */
};

int changes_open(struct changes *changes)
{
	*changes = (struct changes){ .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
	if (changes->fd < 0)
		return -1;
	changes->batch = xmalloc(BATCH_ROOM);
	return 0;
}

void changes_close(struct changes *changes)
{
	if (changes->fd >= 0)
		close(changes->fd);
	free(changes->batch);
	*changes = (struct changes){ .fd = -1 };
}

static struct inotify_event *event_at(struct changes *c, size_t at)
{
	return at < c->end ? (struct inotify_event *)(void *)(c->batch + at) : NULL;
}

bool changes_more(struct changes *c, int wait_ms)
{
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	if (c->at) {
		memmove(c->batch, c->batch + c->at, c->end - c->at);
		c->end -= c->at;
		c->whole -= c->whole < c->at ? c->whole : c->at;
		c->at = 0;
	}
	if (c->end + sizeof(struct inotify_event) + NAME_MAX + 1 > BATCH_ROOM ||
	    (wait_ms && poll(&pfd, 1, wait_ms) <= 0))
		return false;
	ssize_t n = read(c->fd, c->batch + c->end, BATCH_ROOM - c->end);
	if (n > 0)
		c->end += (size_t)n;
	return n > 0;
}

bool changes_take(struct changes *c, struct change *ret)
{
	struct inotify_event *event = event_at(c, c->at);
	if (!event)
		return false;
	*ret = (struct change){ event->wd, event->mask, event->cookie, "" };
	if (event->len)
		snprintf(ret->name, sizeof ret->name, "%s", event->name);
	c->at += sizeof *event + event->len;
	return true;
}

/* Looks for the other half of a rename among the next events, and takes it out. */
static bool find_mate(struct changes *c, uint32_t cookie, bool *ret_last, struct change *ret)
{
	size_t seen = 0;
	*ret_last = false;
	for (size_t at = c->at; seen < MATE_EVENTS; seen++) {
		struct inotify_event *event = event_at(c, at);
		*ret_last = !event;
		if (!event)
			return false;
		if (event->mask & IN_MOVED_TO && event->cookie == cookie) {
			*ret = (struct change){ event->wd, event->mask, cookie, "" };
			snprintf(ret->name, sizeof ret->name, "%s", event->name);
			event->mask = 0;
			return true;
		}
		at += sizeof *event + event->len;
	}
	return false;
}

bool changes_mate(struct changes *c, uint32_t cookie, struct change *ret)
{
	bool fresh = c->at > c->whole;
	bool last, found = find_mate(c, cookie, &last, ret);
	while (fresh && !found && last && changes_more(c, MATE_MS))
		found = find_mate(c, cookie, &last, ret);
	if (fresh && !found && last)
		c->whole = c->end; /* nothing came for so long: many such halves wait once */
	return found;
}
