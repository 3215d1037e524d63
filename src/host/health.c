#include "host/health.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/wait.h"
#include "host/gateway.h"
#include "host/ward.h"

enum { WAIT_MS = 5000 };

bool health_check(int state_fd, const char *id)
{
	static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
				      "Connection: close\r\n\r\n";
	const struct sockaddr_un address = gateway_address(state_fd, id);
	char first;
	auto_close int fd = ward_dial(&address, id);
	if (fd < 0) /* others wait too, or the host itself has no descriptor left */
		return errno == EAGAIN || errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		       errno == ENOMEM;
	if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
		return false;
	return !wait_until(fd, POLLIN, clock_ms() + WAIT_MS) || recv(fd, &first, 1, 0) == 1;
}
