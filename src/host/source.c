#include "host/source.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static int lacks(const char *name, struct err *err)
{
	return err_set(err, ERR_INVALID, "the image lacks '%.100s'", name);
}

int source_open(int dir, const char *name, struct err *err)
{
	/* A layer that is there twice is a link the second time. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	struct stat st;
	auto_close int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return lacks(name, err);
	return TAKE_FD(fd);
}

int source_ask(int socket, const char *name, struct err *err)
{
	char byte;
	union control control = { 0 };
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	int fd = -1;
	if (!*name || send(socket, name, strlen(name), MSG_NOSIGNAL) < 0 ||
	    recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return lacks(name, err);
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(head), sizeof fd);
	return fd < 0 ? lacks(name, err) : fd;
}

static int answer(int socket, int fd)
{
	char byte = 0;
	union control control = { .head = { .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(sizeof fd) } };
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

void source_serve(int socket, int dir)
{
	char name[PATH_MAX];
	ssize_t n;
	while ((n = recv(socket, name, sizeof name - 1, 0)) > 0) {
		name[n] = 0;
		auto_close int fd = source_open(dir, name, NULL);
		if (answer(socket, fd) < 0)
			return;
	}
}
