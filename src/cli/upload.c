/* A template's image on its way to the host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "net/client.h"

enum { NOT_FOUND = 127, FORM_MAX = 65536 };

/* A file without a name, with what the directory has. */
static int pack(const char *dir, struct err *err)
{
	const char *folder = getenv("TMPDIR");
	auto_close int fd =
		open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int status = -1;
	if (fd < 0)
		return err_set(err, errno, "no temporary file for '%s'", dir);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fd, STDOUT_FILENO);
		execlp("tar", "tar", "-C", dir, "-cf", "-", ".", (char *)NULL);
		_exit(NOT_FOUND);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		return err_set(err, ERR_BAD_REQUEST,
			       "'tar' could not pack '%s' (TMPDIR names a place with more room, if "
			       "that was why)",
			       dir);
	return TAKE_FD(fd);
}

static int open_image(const char *path, int64_t *ret_size, struct err *err)
{
	struct stat st;
	auto_close int given = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (given < 0 || fstat(given, &st) < 0)
		return err_set(err, errno, "'%s'", path);
	auto_close int fd = S_ISDIR(st.st_mode) ? pack(path, err) : TAKE_FD(given);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", path);
	*ret_size = st.st_size;
	return TAKE_FD(fd);
}

static void add_field(struct buf *form, const char *boundary, const char *name, const char *value)
{
	buf_printf(form, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n",
		   boundary, name, value);
}

json_t *upload_template(const struct remote *remote, const char *name, const char *path,
			const char *origin, struct err *err)
{
	unsigned long long random[2];
	char boundary[48], type[96], tail[64];
	auto_buf struct buf form = BUF(FORM_MAX);
	struct client_file file = { .tail = tail };
	auto_close int fd = file.fd = open_image(path, &file.size, err);
	if (fd < 0)
		return NULL;
	if (getrandom(random, sizeof random, 0) != sizeof random)
		abort();
	snprintf(boundary, sizeof boundary, "aio-%016llx%016llx", random[0], random[1]);
	snprintf(type, sizeof type, "multipart/form-data; boundary=%s", boundary);
	snprintf(tail, sizeof tail, "\r\n--%s--\r\n", boundary);
	add_field(&form, boundary, "name", name);
	add_field(&form, boundary, "origin", origin);
	buf_printf(
		&form,
		"--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"image\"\r\n\r\n",
		boundary);
	const struct client_request request = {
		"POST", "/v1/templates/upload", NULL, type, form.data, form.len, &file
	};
	return remote_send(remote, &request, err);
}
