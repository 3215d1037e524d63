#include "host/health.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/own.h"
#include "host/gateway.h"

enum { WAIT_MS = 5000 };

bool health_check(int state_fd, const char *id)
{
	static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
				      "Connection: close\r\n\r\n";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char first;
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" GATEWAY_SOCKET,
		 state_fd, id);
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return errno == EAGAIN; /* others wait too */
	if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
		return false;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, WAIT_MS) <= 0 || recv(fd, &first, 1, 0) == 1;
}
