#include "box/maker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/birth.h"
#include "box/box.h"
#include "box/disk.h"
#include "box/ground.h"
#include "box/group.h"
#include "box/identity.h"
#include "box/seccomp.h"
#include "box/template.h"
#include "box/title.h"

enum { REQUEST_MAX = 160 << 10, LIST_MAX = 1024, FDS = 3 };
enum { NO_MORE, DONE }; /* how a process ends that was ready to make a box */

/* What of a spec is no string. The strings follow: id, dir, template ("": the machine's), cgroup,
 * environment, and of each mount its root, source, target and "w" or "". */
struct maker_request {
	struct box_limits limits;
	enum box_network network;
	uint32_t uid_base;
	size_t env, mounts;
};

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS * sizeof(int))];
};

/* --- asking ---------------------------------------------------------------------------------- */

static void add(struct buf *text, const char *string)
{
	buf_add(text, string, strlen(string) + 1);
}

static size_t add_list(struct buf *text, const char *const *list)
{
	size_t count = 0;
	for (; list && list[count]; count++)
		add(text, list[count]);
	return count;
}

/* ECONNRESET: they ended before they had read all that was sent. */
static bool is_gone(int code)
{
	return code == EPIPE || code == ECONNRESET || code == ECONNREFUSED || code == ENOTCONN;
}

int maker_send(int fd, const struct box_spec *spec, int reply, struct err *err)
{
	auto_buf struct buf text = BUF(REQUEST_MAX);
	struct maker_request request = { .limits = spec->limits,
					 .network = spec->network,
					 .uid_base = spec->uid_base,
					 .mounts = spec->mount_count };
	add(&text, spec->id);
	add(&text, spec->dir);
	add(&text, spec->template ? spec->template : "");
	add(&text, spec->cgroup);
	request.env = add_list(&text, spec->env);
	for (size_t i = 0; i < spec->mount_count; i++) {
		add(&text, spec->mounts[i].root);
		add(&text, spec->mounts[i].source);
		add(&text, spec->mounts[i].target);
		add(&text, spec->mounts[i].writable ? "w" : "");
	}
	if (text.full || request.env > LIST_MAX)
		return err_set(err, ERR_TOO_LARGE, "the box's environment is too large");
	union control control = { 0 };
	struct iovec parts[] = { { &request, sizeof request }, { text.data, text.len } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = COUNT(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	const int fds[FDS] = { reply, spec->listen_fd, spec->log_fd };
	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS,
					 .cmsg_len = CMSG_LEN(sizeof fds) };
	memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		return err_set(err, is_gone(errno) ? ERR_GONE : errno,
			       "the process that makes boxes");
	return 0;
}

/* --- making ---------------------------------------------------------------------------------- */

struct maker_job {
	struct box_spec spec;
	struct box_mount mounts[COUNT(((struct inside *)0)->mounts)];
	const char *env[LIST_MAX + 1];
	char text[REQUEST_MAX + 1];
};

static const char *next(char **at, const char *end)
{
	const char *string = *at;
	*at += strnlen(*at, (size_t)(end - *at));
	*at += *at < end;
	return string;
}

static int decode(const struct maker_request *request, struct maker_job *job, size_t len)
{
	char *at = job->text, *end = job->text + len;
	job->text[len] = 0;
	if (request->env > LIST_MAX || request->mounts > COUNT(job->mounts))
		return -1;
	job->spec.id = next(&at, end);
	job->spec.dir = next(&at, end);
	job->spec.template = next(&at, end);
	if (!*job->spec.template)
		job->spec.template = NULL;
	job->spec.cgroup = next(&at, end);
	for (size_t i = 0; i < request->env; i++)
		job->env[i] = next(&at, end);
	job->env[request->env] = NULL;
	for (size_t i = 0; i < request->mounts; i++) {
		job->mounts[i].root = next(&at, end);
		job->mounts[i].source = next(&at, end);
		job->mounts[i].target = next(&at, end);
		job->mounts[i].writable = *next(&at, end) == 'w';
	}
	job->spec.env = job->env;
	job->spec.mounts = job->mounts;
	job->spec.mount_count = request->mounts;
	job->spec.limits = request->limits;
	job->spec.network = request->network;
	job->spec.uid_base = request->uid_base;
	return 0;
}

/* 1: there was one, and *ret_reply is where its answer goes; 0: there will be no more. */
static int receive(int fd, struct maker_job *job, int *ret_reply)
{
	struct maker_request request;
	union control control;
	struct iovec parts[] = { { &request, sizeof request }, { job->text, REQUEST_MAX } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = COUNT(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	ssize_t n;
	while ((n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n == 0)
		return 0;
	const struct cmsghdr *head = n < (ssize_t)sizeof request ? NULL : CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_len != CMSG_LEN(FDS * sizeof(int)))
		return -1;
	int fds[FDS];
	memcpy(fds, CMSG_DATA(head), sizeof fds);
	*ret_reply = fds[0];
	job->spec = (struct box_spec){ .listen_fd = fds[1], .log_fd = fds[2] };
	return decode(&request, job, (size_t)n - sizeof request) < 0 ? -1 : 1;
}

/* Makes one box, and ends: what is in a box's memory when it begins is the program and its own spec. The
 * host sees by a pidfd when the box ends; reaping it is the maker's, whose child it then is. */
static _Noreturn void make_one(pid_t maker, int fd, const char *state, inside_serve *serve)
{
	struct maker_job *job = xcalloc(1, sizeof *job);
	struct box_answer answer = { 0 };
	int reply;
	title_set("birth");
	prctl(PR_SET_PDEATHSIG,
	      SIGKILL); /* while it waits: requests then find nobody, not the last few */
	if (getppid() != maker)
		_exit(DONE);
	int got = receive(fd, job, &reply);
	if (got <= 0)
		_exit(got == 0 ? NO_MORE : DONE);
	prctl(PR_SET_PDEATHSIG, 0);
	answer.result = birth_give(&job->spec, state, serve, &answer.proc, &answer.err);
	if (send(reply, &answer, sizeof answer, MSG_NOSIGNAL) < 0 && answer.result == 0)
		(void)group_end(job->spec.cgroup, NULL); /* the host is gone, or waits no more */
	close(reply);
	close(job->spec.listen_fd);
	close(job->spec.log_fd);
	disk_restock(state, job->spec.limits.disk);
	_exit(DONE);
}

/* --- the maker ------------------------------------------------------------------------------- */

/* What all boxes need is found once, or each fork would do so again. What fails here is said in the answer to
 * each request. */
static bool prepare(const char *state)
{
	auto_free char *template = NULL;
	const struct ground *ground = ground_get(state, NULL);
	return ground && template_machine(state, ground->python, &template, NULL) == 0;
}

/* Forks where one is missing. How many there are. */
static size_t replenish(pid_t *ready, size_t count, int fd, const char *state, inside_serve *serve)
{
	size_t there = 0;
	pid_t self = getpid();
	for (size_t i = 0; i < count; i++) {
		if (ready[i] <= 0 && (ready[i] = fork()) == 0)
			make_one(self, fd, state, serve);
		there += ready[i] > 0;
	}
	return there;
}

/* Keeps processes ready: as many as can work at once, and as many again, for while the first are replaced.
 * The maker itself reads no request. Boxes outlive the process that made them, and are then the maker's
 * children. */
static _Noreturn void keep_ready(int fd, const char *state, inside_serve *serve)
{
	size_t count = 2 * (size_t)sysconf(_SC_NPROCESSORS_ONLN) + 1;
	pid_t *ready = xcalloc(count, sizeof *ready);
	bool prepared = prepare(state);
	while (replenish(ready, count, fd, state, serve) > 0) {
		int status;
		size_t i = 0;
		pid_t ended = waitpid(-1, &status, 0);
		while (i < count && ready[i] != ended)
			i++;
		if (ended < 0 || i == count) /* a box */
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MORE)
			_exit(0);
		ready[i] = 0;
		prepared = prepared || prepare(state);
	}
	_exit(1); /* another is started in its place */
}

int maker_main(int argc, char **argv, inside_serve *serve)
{
	if (argc != 3)
		return 2;
	title_init(argc, argv);
	char *state = xstrdup(argv[1]);
	int fd = atoi(argv[2]);
	title_set("maker");
	prctl(PR_SET_NAME, "aio");     /* not "exe" */
	for (int i = 1; i < NSIG; i++) /* whatever the host's were: boxes begin with these */
		signal(i, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)fcntl(MAKER_HOLD, F_SETFD, FD_CLOEXEC); /* not for what they run */
	seccomp_prepare();
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* in a box it would be the box's */
	(void)ground_get(state, NULL); /* first: it may mount where the groups are */
	(void)group_setup(NULL);
	(void)identity_boot();
	keep_ready(fd, state, serve);
}
