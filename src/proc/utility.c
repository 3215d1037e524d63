#include "proc/utility.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/program.h"

static int find(const char *name, char *path, size_t room)
{
	static const char *const dirs[] = { "/usr/sbin", "/sbin", "/usr/bin", "/bin" };
	for (size_t i = 0; i < COUNT(dirs); i++) {
		snprintf(path, room, "%s/%s", *name == '/' ? "" : dirs[i], name);
		if (access(path, X_OK) == 0)
			return 0;
	}
	return -1;
}

static int temporary(const char *text)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	if (fd >= 0 && text && write(fd, text, strlen(text)) >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Runs it; what it prints is in *ret_out, a descriptor that the caller closes. */
static int run(const char *name, const char *package, char *const *argv, const char *input,
	       int64_t timeout_ms, int *ret_out, struct err *err)
{
	char path[128];
	struct program_status how;
	/* Not ours, which has secrets of the host: what is run here may read what boxes send. */
	char *const env[] = { (char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL };
	if (find(name, path, sizeof path) < 0)
		return err_set(err, ERR_NOT_IMPLEMENTED, "there is no %s here: install %s", name,
			       package);
	auto_close int in = temporary(input), out = temporary(NULL);
	if (in < 0 || out < 0)
		return err_set(err, errno, "run %s", name);
	struct spawn spawn = { .path = path, .argv = argv, .env = env, .fds = { in, out, out } };
	if (program_run(&spawn, timeout_ms, &how, err) < 0)
		return -1;
	if (!how.known)
		return err_set(err, ERR_UNAVAILABLE, "%s did not end within %lld s and was killed",
			       name, (long long)timeout_ms / 1000);
	*ret_out = TAKE_FD(out);
	return how.code;
}

int utility_run(const char *name, const char *package, char *const *argv, const char *input,
		int64_t timeout_ms, struct err *err)
{
	char said[256] = "";
	auto_close int out = -1;
	int status = run(name, package, argv, input, timeout_ms, &out, err);
	if (status <= 0)
		return status;
	ssize_t n = pread(out, said, sizeof said - 1, 0);
	said[n > 0 ? n : 0] = 0;
	said[strcspn(said, "\n")] = 0;
	return err_set(err, ERR_UNAVAILABLE, "%s failed: %s", name,
		       *said ? said : "no reason given");
}

int utility_read(const char *name, char *const *argv, struct buf *ret, int64_t timeout_ms,
		 struct err *err)
{
	char data[4096];
	auto_close int out = -1;
	int status = run(name, name, argv, NULL, timeout_ms, &out, err);
	off_t at = 0;
	for (ssize_t n; out >= 0 && (n = pread(out, data, sizeof data, at)) > 0; at += n)
		buf_add(ret, data, (size_t)n);
	return status > 0 ? err_set(err, ERR_UNAVAILABLE, "%s failed", argv[0]) : status;
}
