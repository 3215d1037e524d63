/* An image from a Dockerfile, by whichever builder the machine has. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/commands.h"

/* %DIR, %TAG and %FILE are filled in. */
static const struct builder {
	const char *program;
	const char *build[8], *save[8];
} builders[] = {
	{ "buildah",
	  { "buildah", "build", "-t", "%TAG", "%DIR", NULL },
	  { "buildah", "push", "%TAG", "oci-archive:%FILE", NULL } },
	{ "podman",
	  { "podman", "build", "-t", "%TAG", "%DIR", NULL },
	  { "podman", "save", "--format", "oci-archive", "-o", "%FILE", "%TAG", NULL } },
	{ "docker",
	  { "docker", "build", "-t", "%TAG", "%DIR", NULL },
	  { "docker", "save", "-o", "%FILE", "%TAG", NULL } },
};

static char *fill(const char *word, const char *dir, const char *tag, const char *file)
{
	const char *mark = strchr(word, '%');
	if (!mark)
		return xstrdup(word);
	const char *value = !strcmp(mark, "%DIR") ? dir : !strcmp(mark, "%TAG") ? tag : file;
	return xasprintf("%.*s%s", (int)(mark - word), word, value);
}

static int run(const char *program, const char *const *words, const char *dir, const char *tag,
	       const char *file, struct err *err)
{
	char *argv[8] = { NULL };
	for (size_t i = 0; i + 1 < COUNT(argv) && words[i]; i++)
		argv[i] = fill(words[i], dir, tag, file);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execvp(program, argv);
		_exit(127);
	}
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	int result = status ? err_set(err, ERR_BAD_REQUEST, "'%s %s' failed", program, words[1])
			    : 0;
	for (size_t i = 0; argv[i]; i++)
		free(argv[i]);
	return result;
}

static bool is_there(const char *program)
{
	const char *path = getenv("PATH");
	for (const char *at = path; at && *at;) {
		size_t len = strcspn(at, ":");
		auto_free char *file = xasprintf("%.*s/%s", (int)len, at, program);
		if (access(file, X_OK) == 0)
			return true;
		at += len + (at[len] == ':');
	}
	return false;
}

int build_image(const char *dir, char **ret_archive, struct err *err)
{
	const char *folder = getenv("TMPDIR");
	auto_free char *tag = xasprintf("localhost/aio-template-%d", (int)getpid());
	for (size_t i = 0; i < COUNT(builders); i++) {
		if (!is_there(builders[i].program))
			continue;
		auto_free char *place =
			xasprintf("%s/aio.XXXXXX", folder && *folder ? folder : "/tmp");
		if (!mkdtemp(place))
			return err_set(err, errno, "no temporary directory for the image");
		char *file = *ret_archive = xasprintf("%s/image", place);
		if (run(builders[i].program, builders[i].build, dir, tag, file, err) < 0)
			return -1;
		return run(builders[i].program, builders[i].save, dir, tag, file, err);
	}
	return err_set(err, ERR_UNAVAILABLE, "none of buildah, podman and docker is installed");
}
