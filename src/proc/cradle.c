#include "proc/cradle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "proc/spawn.h"
#include "proc/user.h"

enum { TEXT_MAX = 16 << 20, STEP_ROOM = 64 };

enum { FDS = 5 }; /* the three standard ones, and two more */

/* One program to start. Its strings follow: path, cwd ("": none), arguments, environment. */
struct cradle_request {
	uint64_t tag;
	size_t size;
	uint32_t arguments, variables;
	bool terminal, other, has[FDS]; /* which descriptors come with it */
	uid_t uid;
	gid_t gid, groups[USER_GROUPS_MAX];
	int group_count;
};

struct cradle_answer {
	pid_t pid;
	int code;
	char step[STEP_ROOM];
};

static int cradle = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void cradle_use(int fd)
{
	cradle = fd;
}

int cradle_is_used(void)
{
	return cradle >= 0;
}

/* --- both sides ------------------------------------------------------------------------------ */

static int send_all(int fd, const void *data, size_t len)
{
	for (ssize_t n; len; data = (const char *)data + n, len -= (size_t)n) {
		n = send(fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return -1;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

static int receive_all(int fd, void *data, size_t len)
{
	for (ssize_t n; len; data = (char *)data + n, len -= (size_t)n) {
		n = recv(fd, data, len, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS * sizeof(int))];
};

/* --- the server's side ----------------------------------------------------------------------- */

static uint32_t add_strings(struct buf *text, char *const *strings)
{
	uint32_t count = 0;
	for (; strings[count]; count++)
		buf_add(text, strings[count], strlen(strings[count]) + 1);
	return count;
}

static int send_request(const struct cradle_request *request, const int fds[FDS],
			const struct buf *text)
{
	union control control = { 0 };
	struct iovec part = { (void *)request, sizeof *request };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int count = 0, sent[FDS];
	for (int i = 0; i < FDS; i++)
		if (fds[i] >= 0)
			sent[count++] = fds[i];
	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), sent, (size_t)count * sizeof(int));
	}
	if (sendmsg(cradle, &message, MSG_NOSIGNAL) != sizeof *request)
		return -1;
	return send_all(cradle, text->data, text->len);
}

/* Nothing can ever be started again. The box ends, and can be started again. */
static void end_without_cradle(void)
{
	struct pollfd pfd = { .fd = cradle };
	if (poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP) {
		log_error("the process that starts commands was killed: the box ends");
		_exit(1);
	}
}

pid_t cradle_start(const struct spawn *spawn, int *ret_code, const char **ret_step)
{
	static _Thread_local struct cradle_answer answer; /* *ret_step points into it */
	auto_buf struct buf text = BUF(TEXT_MAX);
	struct cradle_request request = { .tag = spawn->tag, .terminal = spawn->terminal };
	buf_add(&text, spawn->path, strlen(spawn->path) + 1);
	buf_add(&text, spawn->cwd ? spawn->cwd : "", strlen(spawn->cwd ? spawn->cwd : "") + 1);
	request.arguments = add_strings(&text, spawn->argv);
	request.variables = add_strings(&text, spawn->env);
	request.size = text.len;
	int all[FDS];
	for (int i = 0; i < FDS; i++) {
		all[i] = i < 3 + spawn->extras ? spawn->fds[i] : -1;
		request.has[i] = all[i] >= 0;
	}
	if (spawn->as) {
		request.other = spawn->as->other;
		request.uid = spawn->as->uid;
		request.gid = spawn->as->gid;
		request.group_count = spawn->as->group_count;
		memcpy(request.groups, spawn->as->groups, sizeof request.groups);
	}
	*ret_step = NULL;
	*ret_code = E2BIG;
	if (text.full)
		return -1;
	pthread_mutex_lock(&lock);
	int result = send_request(&request, all, &text);
	if (result == 0)
		result = receive_all(cradle, &answer, sizeof answer);
	if (result < 0)
		end_without_cradle();
	pthread_mutex_unlock(&lock);
	*ret_code = result < 0 ? EPIPE : answer.code;
	if (result < 0)
		return -1;
	if (*answer.step)
		*ret_step = answer.step;
	return answer.pid;
}

/* --- the cradle's side ----------------------------------------------------------------------- */

static int receive_request(int fd, struct cradle_request *request, int fds[FDS])
{
	union control control;
	struct iovec part = { request, sizeof *request };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	ssize_t n;
	while ((n = recvmsg(fd, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n != sizeof *request)
		return -1;
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	const int *got = head ? (const int *)CMSG_DATA(head) : NULL;
	for (int i = 0; i < FDS; i++)
		fds[i] = request->has[i] && got ? *got++ : -1;
	return 0;
}

static char **point_at(char **at, uint32_t count)
{
	char **list = xmalloc((count + 1) * sizeof *list);
	for (uint32_t i = 0; i < count; i++, *at += strlen(*at) + 1)
		list[i] = *at;
	list[count] = NULL;
	return list;
}

static void start(const struct cradle_request *request, char *text, const int fds[FDS],
		  struct cradle_answer *answer)
{
	char *at = text;
	struct user user = { .uid = request->uid,
			     .gid = request->gid,
			     .group_count = request->group_count,
			     .other = request->other };
	struct spawn spawn = { .path = at,
			       .as = &user,
			       .fds = { fds[0], fds[1], fds[2], fds[3], fds[4] },
			       .extras = (fds[3] >= 0) + (fds[4] >= 0),
			       .terminal = request->terminal,
			       .tag = request->tag };
	memcpy(user.groups, request->groups, sizeof user.groups);
	at += strlen(at) + 1;
	spawn.cwd = *at ? at : NULL;
	at += strlen(at) + 1;
	auto_free char **argv = point_at(&at, request->arguments);
	auto_free char **env = point_at(&at, request->variables);
	spawn.argv = argv;
	spawn.env = env;
	const char *step = NULL;
	answer->pid = spawn_clone(&spawn, true, NULL, &answer->code, &step);
	if (step)
		strncpy(answer->step, step, sizeof answer->step - 1);
}

void cradle_run(int fd)
{
	struct cradle_request request;
	int fds[FDS];
	while (receive_request(fd, &request, fds) == 0) {
		struct cradle_answer answer = { 0 };
		auto_free char *text = xmalloc(request.size + 1);
		if (receive_all(fd, text, request.size) < 0)
			break;
		text[request.size] = 0;
		start(&request, text, fds, &answer);
		for (int i = 0; i < FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (send_all(fd, &answer, sizeof answer) < 0)
			break;
	}
	_exit(0);
}
