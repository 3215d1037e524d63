/* An image from a Dockerfile, by whichever builder the machine has. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/commands.h"

enum { WORDS = 8, ARGUMENTS = 256, NOT_FOUND = 127 };

/* %TAG and %FILE are filled in; the last word of "build" is followed by flags and the directory. */
static const struct builder {
	const char *program;
	const char *probe[WORDS], *build[WORDS], *save[WORDS], *remove[WORDS];
	const char *when_unfit; /* what to do when the probe fails */
	bool has_storage;       /* of its own, rather than a daemon's */
} builders[] = {
	{ "buildah",
	  { NULL },
	  { "buildah", "build", "--layers", "--force-rm", "-t", "%TAG" },
	  { "buildah", "push", "--disable-compression", "%TAG", "oci-archive:%FILE" },
	  { "buildah", "rmi", "%TAG" },
	  NULL,
	  true },
	{ "podman",
	  { NULL },
	  { "podman", "build", "--force-rm", "-t", "%TAG" },
	  { "podman", "save", "--uncompressed", "--format", "oci-archive", "-o", "%FILE", "%TAG" },
	  { "podman", "rmi", "%TAG" },
	  NULL,
	  true },
	{ "docker",
	  { "docker", "version" },
	  { "docker", "build", "--force-rm", "-t", "%TAG" },
	  { "docker", "save", "-o", "%FILE", "%TAG" },
	  { "docker", "rmi", "%TAG" },
	  "docker's daemon does not answer: start it (systemctl start docker) or set DOCKER_HOST",
	  false },
};

struct flags {
	const char *builder, *file, *target;
	struct list build_arg;
	bool no_cache;
};
static const char *const builder_names[] = { "buildah", "podman", "docker", NULL };
static const struct field flag_fields[] = {
	ENUM(flags, builder, OPTIONAL, "Which one builds; the first that is there when absent.",
	     .choices = builder_names),
	STR(flags, file, OPTIONAL, "The Dockerfile; that of the directory when absent."),
	STR(flags, target, OPTIONAL, "The stage to build; the last when absent."),
	LIST(flags, build_arg, OPTIONAL, "NAME=VALUE of an ARG; may be given again.",
	     .item = T_STR),
	BOOL(flags, no_cache, OPTIONAL, "Run every step again."),
};
const struct schema build_schema = SCHEMA(flags, "TemplateBuildFlags", flag_fields);

struct build_names {
	char tag[64], file[PATH_MAX];
	const char *driver; /* of its storage; NULL: its own choice */
};

/* ---- the builder's surroundings ---- */

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

static bool in_container(void)
{
	const char *name = getenv("container");
	return (name && *name) || access("/.dockerenv", F_OK) == 0 ||
	       access("/run/.containerenv", F_OK) == 0;
}

static bool is_overlay(const char *path)
{
	struct statfs st;
	while (statfs(path, &st) < 0)
		path = !strcmp(path, "/var/lib/containers/storage") ? "/var/lib/containers"
		       : !strcmp(path, "/var/lib/containers")       ? "/var/lib"
								    : "/";
	return (uint64_t)st.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* What buildah and podman must be told where they would choose what cannot work. What the caller or
 * the machine's configuration has chosen stays. */
static void adapt(struct build_names *names)
{
	const char *driver = getenv("STORAGE_DRIVER"); /* not every version heeds it by itself */
	bool runtime = is_there("crun") || is_there("runc") || access("/usr/sbin/runc", X_OK) == 0;
	if (in_container() || !runtime) /* else a container in a container, by a runtime */
		setenv("BUILDAH_ISOLATION", "chroot", 0);
	if (driver && *driver)
		names->driver = driver;
	else if (is_overlay("/var/lib/containers/storage") && !is_there("fuse-overlayfs") &&
		 access("/etc/containers/storage.conf", F_OK) < 0)
		names->driver = "vfs"; /* an overlay cannot stand on one */
}

/* ---- running it ---- */

static volatile sig_atomic_t running, asked_to_end;

/* An interrupt reaches the builder by itself; the rest is passed on, and we clean up behind it. */
static void pass_on(int number)
{
	asked_to_end = number;
	if (running > 0 && number != SIGINT)
		kill((pid_t)running, number);
}

static void watch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = pass_on };
	for (size_t i = 0; i < COUNT(numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

/* Its output is progress, for people: our standard output is for the answer. */
static int run(char *const *argv, bool quiet)
{
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(null, STDIN_FILENO);
		if (quiet)
			dup2(null, STDERR_FILENO);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(NOT_FOUND);
	}
	running = pid;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	running = 0;
	return status;
}

/* The words of a command, to be freed. */
static size_t fill(char **argv, const char *const *words, const struct build_names *names)
{
	size_t count = 0;
	for (size_t i = 0; i < WORDS && words[i]; i++) {
		const char *word = words[i], *mark = strchr(word, '%');
		const char *value = mark && !strcmp(mark, "%TAG") ? names->tag : names->file;
		argv[count++] = mark ? xasprintf("%.*s%s", (int)(mark - word), word, value)
				     : xstrdup(word);
		if (i == 0 && names->driver)
			argv[count++] = xasprintf("--storage-driver=%s", names->driver);
	}
	return count;
}

static int run_words(const char *const *words, const struct build_names *names, bool quiet)
{
	char *argv[WORDS + 2] = { NULL };
	size_t count = fill(argv, words, names);
	int status = run(argv, quiet);
	while (count)
		free(argv[--count]);
	return status;
}

static int failed(const char *program, const char *what, int status, const char *hint,
		  struct err *err)
{
	if (asked_to_end)
		return err_set(err, ERR_GONE, "interrupted; no template was made");
	if (WIFSIGNALED(status))
		return err_set(err, ERR_BAD_REQUEST, "'%s %s' was ended by signal %d (%s)", program,
			       what, WTERMSIG(status), strsignal(WTERMSIG(status)));
	return err_set(err, ERR_BAD_REQUEST, "'%s %s' failed with status %d%s", program, what,
		       WEXITSTATUS(status), hint);
}

/* ---- the parts ---- */

static const char *flag(const json_t *flags, const char *name)
{
	return json_string_value(json_object_get(flags, name));
}

static const struct builder *choose(const char *wanted, struct err *err)
{
	const char *unfit = NULL;
	for (size_t i = 0; i < COUNT(builders); i++) {
		const struct builder *b = &builders[i];
		if ((wanted && strcmp(wanted, b->program) != 0) || !is_there(b->program))
			continue;
		if (!b->probe[0] || run_words(b->probe, &(struct build_names){ 0 }, true) == 0)
			return b;
		unfit = b->when_unfit;
	}
	if (unfit)
		err_set(err, ERR_UNAVAILABLE, "%s%s", unfit, wanted ? "" : "; or install buildah");
	else if (wanted)
		err_set(err, ERR_UNAVAILABLE, "'%s' is not installed", wanted);
	else
		err_set(err, ERR_UNAVAILABLE,
			"none of buildah, podman and docker is installed: install one, as with "
			"'apt-get install buildah'");
	return NULL;
}

/* The Dockerfile's full path, free() it: builders differ in where they look for one. */
static char *find_file(const char *dir, const char *given, struct err *err)
{
	static const char *const usual[] = { "Dockerfile", "Containerfile" };
	struct stat st;
	if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
		err_set(err, ERR_NOT_FOUND, "there is no directory '%s'", dir);
		return NULL;
	}
	char *path = given ? realpath(given, NULL) : NULL;
	for (size_t i = 0; i < COUNT(usual) && !given && !path; i++) {
		auto_free char *name = xasprintf("%s/%s", dir, usual[i]);
		path = realpath(name, NULL);
	}
	if (!path && given)
		err_set(err, ERR_NOT_FOUND, "there is no '%s'", given);
	else if (!path)
		err_set(err, ERR_NOT_FOUND, "'%s' has no Dockerfile (--file names another)", dir);
	return path;
}

static int build(const struct builder *builder, const char *dir, const char *file,
		 const json_t *flags, const struct build_names *names, struct err *err)
{
	char *argv[ARGUMENTS] = { NULL };
	const json_t *args = json_object_get(flags, "build_arg");
	size_t own = fill(argv, builder->build, names), count = own;
	if (json_array_size(args) > (ARGUMENTS - WORDS - 10) / 2)
		return err_set(err, ERR_INVALID, "too many --build-arg");
	argv[count++] = (char *)"-f";
	argv[count++] = (char *)file;
	if (flag(flags, "target")) {
		argv[count++] = (char *)"--target";
		argv[count++] = (char *)flag(flags, "target");
	}
	if (json_is_true(json_object_get(flags, "no_cache")))
		argv[count++] = (char *)"--no-cache";
	for (size_t i = 0; i < json_array_size(args); i++) {
		argv[count++] = (char *)"--build-arg";
		argv[count++] = (char *)json_string_value(json_array_get(args, i));
	}
	argv[count] = (char *)dir;
	int status = run(argv, false);
	while (own)
		free(argv[--own]);
	return status || asked_to_end
		       ? failed(builder->program, "build", status, "; what it said is above", err)
		       : 0;
}

int build_image(const char *dir, const json_t *flags, char **ret_archive, struct err *err)
{
	struct build_names names = { 0 };
	const char *folder = getenv("TMPDIR");
	auto_free char *file = find_file(dir, flag(flags, "file"), err);
	const struct builder *builder = file ? choose(flag(flags, "builder"), err) : NULL;
	if (!builder)
		return -1;
	auto_free char *place = xasprintf("%s/aio.XXXXXX", folder && *folder ? folder : "/tmp");
	auto_free char *full = realpath(dir, NULL);
	if (!full || !mkdtemp(place))
		return err_set(err, errno, "no temporary directory for the image in '%s'", place);
	snprintf(names.tag, sizeof names.tag, "localhost/aio-template-%d", (int)getpid());
	snprintf(names.file, sizeof names.file, "%s/image", place);
	*ret_archive = xstrdup(names.file);
	if (builder->has_storage)
		adapt(&names);
	watch_signals();
	if (build(builder, full, file, flags, &names, err) < 0)
		return -1;
	int status = run_words(builder->save, &names, false);
	(void)run_words(builder->remove, &names, true);
	return status || asked_to_end
		       ? failed(builder->program, builder->save[1], status,
				" (TMPDIR names a place with more room, if that was why)", err)
		       : 0;
}
