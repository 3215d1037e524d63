#include "host/import.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "box/files.h"
#include "box/ids.h"
#include "host/confine.h"
#include "host/fit.h"
#include "host/gem.h"
#include "host/image.h"
#include "host/manifest.h"
#include "host/source.h"
#include "host/unpack.h"

enum { INDEX_DEPTH = 4, ENTRIES_MAX = 2000000 };

/* How the process that unpacks ends. */
enum { IN_ROOT, FAILED, IN_SCRATCH };

struct import_job {
	int archive;       /* an image or a root file system, or -1 */
	int ask;           /* else who opens the files of an image */
	int root, scratch; /* trees: what becomes the template, and where an image is unpacked */
	struct unpack_room room;
};

/* ---- inside: everything here reads hostile bytes ---- */

static int open_file(const struct import_job *job, const char *name, struct err *err)
{
	return job->ask >= 0 ? source_ask(job->ask, name, err)
			     : source_open(job->scratch, name, err);
}

/* A blob's name ends with the sum of what is in it. */
static int check_digest(int fd, const char *name, struct err *err)
{
	unsigned char sum[EVP_MAX_MD_SIZE], piece[65536];
	const char *hex = strrchr(name, '/') + 1;
	unsigned len = 0;
	char text[65];
	ssize_t n;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_DigestInit_ex(context, EVP_sha256(), NULL);
	for (off_t at = 0; (n = pread(fd, piece, sizeof piece, at)) > 0; at += n)
		EVP_DigestUpdate(context, piece, (size_t)n);
	EVP_DigestFinal_ex(context, sum, &len);
	EVP_MD_CTX_free(context);
	for (unsigned i = 0; i < len && i < 32; i++)
		snprintf(text + (size_t)i * 2, 3, "%02x", sum[i]);
	if (n < 0 || strcmp(text, hex) != 0)
		return err_set(err, ERR_INVALID,
			       "the image is damaged: blob %.12s is not what it says", hex);
	return 0;
}

static int open_checked(const struct import_job *job, const char *name, bool oci, struct err *err)
{
	auto_close int fd = name ? open_file(job, name, err) : -1;
	if (fd < 0 || (oci && check_digest(fd, name, err) < 0))
		return -1;
	return TAKE_FD(fd);
}

static json_t *read_json(int fd, struct err *err)
{
	struct stat st;
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0 || st.st_size > MANIFEST_JSON_MAX) {
		err_set(err, ERR_TOO_LARGE,
			"the image has a manifest or configuration of more "
			"than %d MiB",
			MANIFEST_JSON_MAX >> 20);
		return NULL;
	}
	auto_free char *text = xmalloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
	struct err why = { 0 };
	json_t *value = n < 0 ? NULL : json_parse(text, (size_t)n, &why);
	if (!value)
		err_set(err, ERR_INVALID,
			"the image's manifest or configuration is not valid JSON: %s", why.msg);
	return value;
}

/* From the index on, to what has layers. */
static json_t *read_oci(const struct import_job *job, int index, struct err *err)
{
	json_t *at = read_json(index, err);
	for (int depth = 0; at && !json_object_get(at, "layers") && depth < INDEX_DEPTH; depth++) {
		auto_free char *name = manifest_blob(manifest_choose(at), err);
		auto_close int fd = open_checked(job, name, true, err);
		json_decref(at);
		at = read_json(fd, err);
	}
	return at;
}

static int unpack_layers(struct import_job *job, const json_t *manifest, bool oci, struct err *err)
{
	const json_t *layers = manifest_layers(manifest, oci, err);
	if (!layers || confine_move(job->root, err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(layers); i++) {
		auto_free char *name = manifest_layer(layers, i, oci, err);
		auto_close int fd = open_checked(job, name, oci, err);
		if (fd < 0 || unpack(fd, true, &job->room, err) < 0)
			return -1;
	}
	return 0;
}

/* 1 if it was an image, 0 if not. */
static int import_image(struct import_job *job, json_t **ret_config, struct err *err)
{
	auto_close int index = open_file(job, "index.json", NULL);
	auto_close int docker = index < 0 ? open_file(job, "manifest.json", NULL) : -1;
	bool oci = index >= 0;
	if (index < 0 && docker < 0)
		return 0;
	json_t *manifest = oci ? read_oci(job, index, err) : read_json(docker, err);
	struct err why = { 0 };
	int result = manifest ? unpack_layers(job, manifest, oci, err) : -1;
	auto_free char *name = result < 0 ? NULL : manifest_config(manifest, oci, &why);
	auto_close int config = name ? open_checked(job, name, oci, &why) : -1;
	*ret_config = read_json(config, &why);
	json_decref(manifest);
	if (result == 0 && why.code)
		return err_set(err, why.code, "%s", why.msg);
	return result < 0 ? -1 : 1;
}

/* In the root file system: whether a box can run it, its user, and what its image says. */
static int finish(const json_t *config, struct err *err)
{
	if (access("/bin", F_OK) < 0 && access("/usr/bin", F_OK) < 0)
		return err_set(err, ERR_INVALID, "it holds no root file system: it has no /bin");
	if (fit_check(err) < 0 || gem_add(err) < 0)
		return -1;
	json_t *settings = image_settings(config, "/");
	int result = json_dumpf(settings, stdout, JSON_COMPACT);
	json_decref(settings);
	return result < 0 || fflush(stdout) != 0 ? err_set(err, EIO, "telling of the image") : 0;
}

static int work(struct import_job *job, struct err *err)
{
	json_t *config = NULL;
	if (job->archive >= 0 && (confine_move(job->scratch, err) < 0 ||
				  unpack(job->archive, false, &job->room, err) < 0))
		return -1;
	int image = import_image(job, &config, err);
	if (image == 0 && job->archive < 0)
		return err_set(
			err, ERR_INVALID,
			"the directory is not an image: it has no index.json or manifest.json "
			"(pack a root file system with tar)");
	int result = image < 0 ? -1 : finish(config, err);
	json_decref(config);
	return result < 0 ? -1 : image ? IN_ROOT : IN_SCRATCH;
}

/* ---- outside ---- */

static void tell(const struct err *err)
{
	printf("%d %s", err->code, err->msg);
	fflush(stdout);
}

/* From here on we end with our parent: it may have ended before, and then nobody reads what we print. */
static void end_if_alone(void)
{
	struct pollfd pfd = { .fd = STDOUT_FILENO };
	if (poll(&pfd, 1, 0) > 0 && pfd.revents & POLLERR)
		_exit(FAILED);
}

static void child(struct import_job *job)
{
	struct err err = { 0 };
	const int kept[] = { job->archive, job->ask, job->root, job->scratch, IMPORT_ALIVE };
	int result = confine_enter(job->root, kept, COUNT(kept), &err);
	end_if_alone();
	if (result == 0)
		result = work(job, &err);
	if (result < 0)
		tell(&err);
	_exit(result < 0 ? FAILED : result);
}

static int make_dir(const char *dir, struct err *err)
{
	uint32_t owner = ids_of_templates();
	if (mkdir(dir, 0755) < 0 || (owner && chown(dir, owner, owner) < 0))
		return err_set(err, errno, "mkdir '%s'", dir);
	return confine_tree(dir, err);
}

/* An eighth of what the disk has is left to others. */
static struct unpack_room find_room(int64_t bytes)
{
	struct unpack_room room = { bytes, ENTRIES_MAX };
	struct statvfs st;
	if (statvfs(".", &st) < 0)
		return room;
	int64_t free_bytes = (int64_t)(st.f_bavail * st.f_frsize / 8 * 7);
	int64_t free_files = (int64_t)(st.f_favail / 8 * 7);
	if (free_bytes < room.bytes)
		room.bytes = free_bytes;
	if (st.f_files && free_files < room.entries) /* some file systems do not count them */
		room.entries = free_files;
	return room;
}

/* Starts the process that unpacks, and sees it to its end: how it ended, or -1. */
static int run(struct import_job *job, int dir, struct err *err)
{
	int pair[2] = { -1, -1 }, status;
	if (dir >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	job->ask = pair[1];
	pid_t pid = confine_fork(err);
	if (pid == 0)
		child(job);
	close(pair[1]);
	if (pid > 0 && dir >= 0)
		source_serve(pair[0], dir);
	close(pair[0]);
	if (pid < 0)
		return -1;
	if (waitpid(pid, &status, 0) < 0)
		return err_set(err, errno, "waiting for the process that unpacks");
	if (WIFEXITED(status) && WEXITSTATUS(status) <= IN_SCRATCH)
		return WEXITSTATUS(status);
	return err_set(err, ERR_INVALID,
		       "unpacking it has failed: the image is damaged, or takes more than 1 GiB of "
		       "memory to unpack");
}

static int import_tree(int64_t bytes, struct err *err)
{
	struct stat st;
	struct import_job job = { .room = find_room(bytes) };
	if (fstat(IMPORT_SOURCE, &st) < 0)
		return err_set(err, errno, "the source");
	if (unpack_load(err) < 0)
		return -1;
	bool is_dir = S_ISDIR(st.st_mode);
	job.archive = is_dir ? -1 : IMPORT_SOURCE;
	job.root = make_dir("root", err);
	job.scratch = job.root < 0 ? -1 : make_dir("image", err);
	if (job.scratch < 0)
		return -1;
	int result = run(&job, is_dir ? IMPORT_SOURCE : -1, err);
	close(job.root);
	close(job.scratch);
	if (result == IN_SCRATCH && (rmdir("root") < 0 || rename("image", "root") < 0))
		return err_set(err, errno, "rename");
	if (result == IN_ROOT && files_remove("image", err) < 0)
		return -1;
	return result;
}

/* What is loaded or looked up at first use is the machine's now, and would be the image's later. */
static void prepare(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_if_alone();
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	json_object_seed(0); /* of the hashes of keys: by /dev/urandom */
	EVP_MD_free(EVP_MD_fetch(NULL, "SHA256", NULL));
	setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8 */
	umask(0);
}

int import_main(int argc, char **argv)
{
	struct err err = { 0 };
	uint32_t owner = ids_of_templates();
	prepare();
	if (argc != 3 || chdir(argv[1]) < 0 || (owner && chown(".", owner, owner) < 0))
		err_set(&err, errno, "the template's directory");
	int result = err.code ? -1 : import_tree(strtoll(argv[2], NULL, 10), &err);
	if (result < 0)
		tell(&err);
	return result == IN_ROOT || result == IN_SCRATCH ? 0 : 1;
}
