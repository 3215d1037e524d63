#include "desktop/rfb_release.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "desktop/gui.h"

enum {
	VERSION = 12,
	SECURITY_NONE = 1,
	SHARED = 1,
	RESULT = 4,
	SERVER_INIT = 24, /* its last word: how long the name is */
	NAME_MAX_LEN = 1024,
	POINTER_EVENT = 5,
	BUTTONS_HELD = 0x1f00, /* in the state of the pointer */
};

/* The server sends nothing but what it is waited for here. */
static bool receive(int fd, void *to, size_t len, const struct wait *wait)
{
	for (char *at = to; len;) {
		ssize_t n = recv(fd, at, len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n < 0 && wait_fd(wait, fd, POLLIN) != WAKE_READY)
			return false;
		at += n < 0 ? 0 : n;
		len -= n < 0 ? 0 : (size_t)n;
	}
	return true;
}

/* A few bytes, which a new connection has room for. */
static bool send_all(int fd, const void *data, size_t len)
{
	return send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

static bool greet(int fd, const struct wait *wait)
{
	static const unsigned char none = SECURITY_NONE, shared = SHARED;
	unsigned char version[VERSION], count, types[255], result[RESULT], init[SERVER_INIT];
	char name[NAME_MAX_LEN];
	if (!receive(fd, version, sizeof version, wait) ||
	    !send_all(fd, "RFB 003.008\n", sizeof version) || !receive(fd, &count, 1, wait) ||
	    !receive(fd, types, count, wait) || !memchr(types, SECURITY_NONE, count) ||
	    !send_all(fd, &none, 1) || !receive(fd, result, sizeof result, wait) ||
	    !send_all(fd, &shared, 1) || !receive(fd, init, sizeof init, wait))
		return false;
	size_t len = (size_t)init[22] << 8 | init[23];
	return !init[20] && !init[21] && len <= sizeof name && receive(fd, name, len, wait);
}

/* Where the pointer is, if a button is held. */
static bool find_held(struct gui *gui, struct gui_place *ret, const struct wait *wait)
{
	struct err err;
	if (gui_begin(gui, wait, &err) < 0)
		return false;
	bool found = gui_where(gui, ret, &err) == 0 && ret->state & BUTTONS_HELD;
	gui_end(gui);
	return found;
}

/* Once it has greeted us the server has read all that the client before sent. */
void rfb_release(int fd, struct gui *gui, const struct wait *wait)
{
	struct gui_place at;
	if (!greet(fd, wait) || !find_held(gui, &at, wait))
		return;
	const unsigned char event[] = { POINTER_EVENT,
					0,
					(unsigned char)(at.x >> 8),
					(unsigned char)at.x,
					(unsigned char)(at.y >> 8),
					(unsigned char)at.y };
	(void)send_all(fd, event, sizeof event);
}
