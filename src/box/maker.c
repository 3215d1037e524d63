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
#include "box/seccomp.h"
#include "box/template.h"
#include "box/title.h"

enum { REQUEST_MAX = 160 << 10, LIST_MAX = 1024, FDS = 3 };

/* What of a spec is no string. The strings follow: id, dir, template ("": the machine's), cgroup,
 * environment, arguments, and of each mount its root, source, target and "w" or "". */
struct request {
	struct box_limits limits;
	enum box_network network;
	uint32_t uid_base;
	size_t env, serve, mounts;
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

int maker_send(int fd, const struct box_spec *spec, int reply, struct err *err)
{
	auto_buf struct buf text = BUF(REQUEST_MAX);
	struct request request = { .limits = spec->limits,
				   .network = spec->network,
				   .uid_base = spec->uid_base,
				   .mounts = spec->mount_count };
	add(&text, spec->id);
	add(&text, spec->dir);
	add(&text, spec->template ? spec->template : "");
	add(&text, spec->cgroup);
	request.env = add_list(&text, spec->env);
	request.serve = add_list(&text, spec->serve);
	for (size_t i = 0; i < spec->mount_count; i++) {
		add(&text, spec->mounts[i].root);
		add(&text, spec->mounts[i].source);
		add(&text, spec->mounts[i].target);
		add(&text, spec->mounts[i].writable ? "w" : "");
	}
	if (text.full || request.env > LIST_MAX || request.serve > LIST_MAX)
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
		return err_set(err, errno == EPIPE ? ERR_GONE : errno,
			       "the process that makes boxes");
	return 0;
}

/* --- making ---------------------------------------------------------------------------------- */

struct job {
	struct box_spec spec;
	struct box_mount mounts[COUNT(((struct inside *)0)->mounts)];
	const char *env[LIST_MAX + 1], *serve[LIST_MAX + 1];
	char text[REQUEST_MAX + 1];
};

static const char *next(char **at, const char *end)
{
	const char *string = *at;
	*at += strnlen(*at, (size_t)(end - *at));
	*at += *at < end;
	return string;
}

static int decode(const struct request *request, struct job *job, size_t len)
{
	char *at = job->text, *end = job->text + len;
	job->text[len] = 0;
	if (request->env > LIST_MAX || request->serve > LIST_MAX ||
	    request->mounts > COUNT(job->mounts))
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
	for (size_t i = 0; i < request->serve; i++)
		job->serve[i] = next(&at, end);
	job->serve[request->serve] = NULL;
	for (size_t i = 0; i < request->mounts; i++) {
		job->mounts[i].root = next(&at, end);
		job->mounts[i].source = next(&at, end);
		job->mounts[i].target = next(&at, end);
		job->mounts[i].writable = *next(&at, end) == 'w';
	}
	job->spec.env = job->env;
	job->spec.serve = job->serve;
	job->spec.mounts = job->mounts;
	job->spec.mount_count = request->mounts;
	job->spec.limits = request->limits;
	job->spec.network = request->network;
	job->spec.uid_base = request->uid_base;
	return 0;
}

/* Whether there was one; *ret_reply is where its answer goes. */
static int receive(int fd, struct job *job, int *ret_reply)
{
	struct request request;
	union control control;
	struct iovec parts[] = { { &request, sizeof request }, { job->text, REQUEST_MAX } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = COUNT(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof control };
	ssize_t n;
	while ((n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	const struct cmsghdr *head = n < (ssize_t)sizeof request ? NULL : CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_len != CMSG_LEN(FDS * sizeof(int)))
		return -1;
	int fds[FDS];
	memcpy(fds, CMSG_DATA(head), sizeof fds);
	*ret_reply = fds[0];
	job->spec = (struct box_spec){ .listen_fd = fds[1], .log_fd = fds[2] };
	return decode(&request, job, (size_t)n - sizeof request);
}

static _Noreturn void work(int fd, const char *state, inside_serve *serve)
{
	auto_free struct job *job = xcalloc(1, sizeof *job);
	int reply;
	while (receive(fd, job, &reply) == 0) {
		struct box_answer answer = { 0 };
		answer.result = birth_give(&job->spec, state, serve, &answer.proc, &answer.err);
		(void)!send(reply, &answer, sizeof answer, MSG_NOSIGNAL);
		close(reply);
		close(job->spec.listen_fd);
		close(job->spec.log_fd);
		disk_restock(state, job->spec.limits.disk);
	}
	_exit(0);
}

int maker_main(int argc, char **argv, inside_serve *serve)
{
	if (argc != 3)
		return 2;
	title_init(argc, argv);
	char *state = xstrdup(argv[1]);
	int fd = atoi(argv[2]);
	long workers = sysconf(_SC_NPROCESSORS_ONLN) + 1;
	title_set("maker");
	prctl(PR_SET_NAME, "aio");     /* not "exe" */
	for (int i = 1; i < NSIG; i++) /* whatever the host's were: boxes begin with these */
		signal(i, SIG_DFL);
	signal(SIGCHLD, SIG_IGN); /* boxes that end are seen by the host, through their pidfd */
	signal(SIGPIPE, SIG_IGN);
	setsid();
	(void)fcntl(MAKER_HOLD, F_SETFD, FD_CLOEXEC); /* not for what they run */
	seccomp_prepare();
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* in a box it would be the box's */
	/* What fails here is said in the answer to each request. */
	const struct ground *ground = ground_get(state, NULL);
	(void)group_setup(NULL);
	auto_free char *template = NULL;
	if (ground)
		(void)template_machine(state, ground->python, &template, NULL);
	while (--workers > 0 && fork() > 0)
		;
	work(fd, state, serve);
}
