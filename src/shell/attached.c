#include "shell/attached.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/program.h"
#include "proc/pty.h"
#include "proc/tree.h"
#include "proc/user.h"

enum {
	CELLS_MAX = 1000,
	TERMINAL_MAX = 131072, /* more than a terminal's buffer holds */
};

enum { IN = ATTACHED_IN, OUT = ATTACHED_OUT, ERR = ATTACHED_ERR };

/* ---- starting ---- */

static int open_terminal(struct attached *a, const struct attached_spec *spec, int theirs[3],
			 struct err *err)
{
	if (pty_open(spec->as, &a->fds[IN], &theirs[IN], err) < 0)
		return -1;
	attached_resize(a, spec->cols, spec->rows);
	a->fds[OUT] = fcntl(a->fds[IN], F_DUPFD_CLOEXEC, 3);
	theirs[OUT] = fcntl(theirs[IN], F_DUPFD_CLOEXEC, 3);
	theirs[ERR] = fcntl(theirs[IN], F_DUPFD_CLOEXEC, 3);
	return a->fds[OUT] < 0 || theirs[OUT] < 0 || theirs[ERR] < 0
		       ? err_set(err, errno, "no descriptor for a terminal")
		       : 0;
}

/* They are the user's, who may open them again by the names /dev/stdout and so on. */
static int open_pipes(struct attached *a, const struct user *user, int theirs[3], struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_set(err, errno, "pipe");
		theirs[i] = ends[i != IN];
		a->fds[i] = ends[i == IN];
		fcntl(a->fds[i], F_SETFL, O_NONBLOCK);
		if (user->other)
			(void)!fchown(theirs[i], user->uid, (gid_t)-1);
	}
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int attached_start(struct attached *attached, const struct attached_spec *spec, struct arena *arena,
		   struct err *err)
{
	const char *text = spec->command;
	bool terminal = attached->terminal = spec->terminal;
	int theirs[3] = { -1, -1, -1 };
	tree_marker(attached->marker, sizeof attached->marker, "exec");
	struct pair extra[] = { { "TERM", spec->term ? spec->term : "xterm-256color" },
				{ "PS1", "\\u@\\h:\\w\\$ " } };
	struct list more = { !terminal ? 0 : text ? 1 : 2, extra };
	char *command[] = { (char *)"bash", (char *)"-c", (char *)"--", (char *)text, NULL };
	char *shell[] = { (char *)"bash", terminal ? (char *)"-i" : NULL, NULL };
	struct program_spec program = {
		.spawn = { .path = "/bin/bash",
			   .argv = text ? command : shell,
			   .cwd = spec->cwd,
			   .terminal = terminal },
		.marker = attached->marker,
	};
	spawn_sandboxed(&program.spawn, arena, spec->as, spec->home, attached->marker, &more);
	int result = terminal ? open_terminal(attached, spec, theirs, err)
			      : open_pipes(attached, spec->as, theirs, err);
	memcpy(program.spawn.fds, theirs, sizeof theirs);
	if (result == 0)
		attached->program = program_start(&program, err);
	for (int i = 0; i < 3; i++)
		close_fd(&theirs[i]);
	return attached->program ? 0 : -1;
}

void attached_done(struct attached *attached)
{
	for (int i = 0; i < 3; i++)
		close_fd(&attached->fds[i]);
	program_unref(attached->program);
}

/* ---- its descriptors ---- */

void attached_resize(const struct attached *attached, int64_t cols, int64_t rows)
{
	if (attached->terminal && attached->fds[IN] >= 0 && cols >= 1 && cols <= CELLS_MAX &&
	    rows >= 1 && rows <= CELLS_MAX)
		(void)pty_resize(attached->fds[IN], (int)cols, (int)rows);
}

void attached_close(struct attached *attached, int which)
{
	close_fd(&attached->fds[which]);
}

static bool not_now(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

size_t attached_read(struct attached *attached, int which, char *to, size_t room)
{
	ssize_t n = attached->fds[which] < 0 ? 0 : read(attached->fds[which], to, room);
	if (not_now(n))
		return 0;
	if (n <= 0)
		attached_close(attached, which);
	return n > 0 ? (size_t)n : 0;
}

size_t attached_held(const struct attached *attached, int which)
{
	int held = TERMINAL_MAX;
	if (!attached->terminal && attached->fds[which] >= 0)
		(void)ioctl(attached->fds[which], FIONREAD, &held);
	return (size_t)held;
}

size_t attached_write(struct attached *attached, const char *data, size_t len)
{
	size_t done = 0;
	while (done < len && attached->fds[IN] >= 0) {
		ssize_t n = write(attached->fds[IN], data + done, len - done);
		if (not_now(n))
			return done;
		if (n < 0)
			attached_close(attached, IN);
		else
			done += (size_t)n;
	}
	return len;
}
