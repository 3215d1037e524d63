#include "host/import.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <locale.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/own.h"
#include "box/files.h"
#include "box/ids.h"
#include "host/fit.h"
#include "host/gem.h"
#include "host/image.h"

enum { LAYERS_MAX = 256, DEPTH_MAX = 4, ENTRIES_MAX = 5000000, UID_LAST = 65534 };

/* ---- the library: loaded, not linked ---- */

#define FUNCTIONS(f)                                                                              \
	f(read_new) f(read_support_filter_all) f(read_support_format_tar) f(read_open_fd) f(      \
		read_next_header) f(read_data_block) f(read_free) f(error_string)                 \
		f(write_disk_new) f(write_disk_set_options) f(write_header) f(write_data_block)   \
			f(write_finish_entry) f(write_free) f(entry_pathname)                     \
				f(entry_set_pathname) f(entry_filetype) f(entry_uid) f(entry_gid) \
					f(entry_set_uid) f(entry_set_gid) f(entry_xattr_reset)    \
						f(entry_xattr_next) f(entry_xattr_clear)          \
							f(entry_xattr_add_entry) f(entry_hardlink)

static struct {
#define MEMBER(name) __typeof__(&archive_##name) name; /* NOLINT(bugprone-macro-parentheses) */
	FUNCTIONS(MEMBER)
} lib;

static int load_library(struct err *err)
{
	static const struct {
		const char *name;
		size_t at;
	} rows[] = {
#define ROW(name) { "archive_" #name, offsetof(__typeof__(lib), name) },
		FUNCTIONS(ROW)
	};
	void *library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, ERR_UNAVAILABLE, "%s (Debian: libarchive13)", dlerror());
	for (size_t i = 0; i < COUNT(rows); i++) {
		void *symbol = dlsym(library, rows[i].name);
		if (!symbol)
			return err_set(err, ERR_UNAVAILABLE, "%s", dlerror());
		memcpy((char *)&lib + rows[i].at, &symbol, sizeof symbol);
	}
	return 0;
}

/* ---- inside the new root ---- */

/* Everything but what giving files their owners, modes and capabilities needs. */
static int drop_privileges(struct err *err)
{
	static const int kept[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
				    CAP_SETFCAP };
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { 0 };
	for (size_t i = 0; i < COUNT(kept); i++)
		data[kept[i] / 32].effective |= 1u << kept[i] % 32;
	data[0].permitted = data[0].effective;
	data[1].permitted = data[1].effective;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, data) < 0)
		return err_set(err, errno, "dropping privileges");
	return 0;
}

/* Attributes that mean something to an overlay or to the machine are not an archive's to set. */
static void filter_attributes(struct archive_entry *entry)
{
	struct kept {
		char *name;
		void *value;
		size_t size;
	} kept[64];
	size_t count = 0, size;
	const char *name;
	const void *value;
	lib.entry_xattr_reset(entry);
	while (count < COUNT(kept) &&
	       lib.entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		if (strcmp(name, "security.capability") != 0 &&
		    (strncmp(name, "user.", 5) != 0 || !strncmp(name, "user.overlay.", 13)))
			continue;
		kept[count] = (struct kept){ xstrdup(name), xmalloc(size + 1), size };
		memcpy(kept[count++].value, value, size);
	}
	lib.entry_xattr_clear(entry);
	for (size_t i = 0; i < count; i++) {
		lib.entry_xattr_add_entry(entry, kept[i].name, kept[i].value, kept[i].size);
		free(kept[i].name);
		free(kept[i].value);
	}
}

static int copy_data(struct archive *from, struct archive *to)
{
	const void *data;
	size_t size;
	la_int64_t at;
	int got;
	while ((got = lib.read_data_block(from, &data, &size, &at)) == ARCHIVE_OK)
		if (lib.write_data_block(to, data, size, at) < ARCHIVE_OK)
			return ARCHIVE_FAILED;
	return got == ARCHIVE_EOF ? ARCHIVE_OK : got;
}

/* ".wh.NAME" hides NAME of the layers below, ".wh..wh..opq" all that is there. */
static bool is_whiteout(const char *path)
{
	const char *slash = strrchr(path, '/');
	return !strncmp(slash ? slash + 1 : path, ".wh.", 4);
}

static int apply_whiteout(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	int dir_len = slash ? (int)(slash - path) : 0;
	const char *name = (slash ? slash + 1 : path) + 4;
	struct stat st;
	auto_free char *dir = xasprintf("/%.*s", dir_len, path);
	if (strcmp(name, ".wh..opq") != 0) {
		auto_free char *target = xasprintf("%s/%s", dir, name);
		if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || unlink(target) == 0)
			return 0;
		return errno == EISDIR ? files_remove(target, err) : 0;
	}
	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || dir_len == 0)
		return 0;
	if (files_remove(dir, err) < 0)
		return -1;
	return mkdir(dir, st.st_mode & 07777) < 0 || lchown(dir, st.st_uid, st.st_gid) < 0
		       ? err_set(err, errno, "mkdir '%s'", dir)
		       : 0;
}

/* A layer's file takes the place of a directory, with all in it, and a directory that of a link. */
static int make_room(const char *path, bool is_dir, struct err *err)
{
	struct stat st;
	if (lstat(path, &st) < 0 || S_ISDIR(st.st_mode) == is_dir)
		return 0;
	return is_dir ? (unlink(path) < 0 ? err_set(err, errno, "'%.200s'", path) : 0)
		      : files_remove(path, err);
}

static int unpack_entry(struct archive *from, struct archive *to, struct archive_entry *entry,
			const char *path, bool layer, struct err *err)
{
	unsigned type = lib.entry_filetype(entry);
	if (!lib.entry_hardlink(entry) && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
		return 0;
	if (lib.entry_uid(entry) < 0 || lib.entry_uid(entry) > UID_LAST)
		lib.entry_set_uid(entry, UID_LAST);
	if (lib.entry_gid(entry) < 0 || lib.entry_gid(entry) > UID_LAST)
		lib.entry_set_gid(entry, UID_LAST);
	filter_attributes(entry);
	auto_free char *clean = xstrdup(path);
	for (size_t len = strlen(clean); len > 1 && clean[len - 1] == '/';)
		clean[--len] = 0; /* behind it, a link would be followed */
	if (layer && make_room(clean, !lib.entry_hardlink(entry) && type == AE_IFDIR, err) < 0)
		return -1;
	lib.entry_set_pathname(entry, clean);
	if (lib.write_header(to, entry) < ARCHIVE_WARN || copy_data(from, to) < ARCHIVE_WARN ||
	    lib.write_finish_entry(to) < ARCHIVE_WARN)
		return err_set(err, ERR_INVALID, "'%.200s': %s", clean, lib.error_string(to));
	return 0;
}

/* Goes through the archive once: for its whiteouts, or for its files. */
static int unpack(int fd, bool layer, bool whiteouts, struct err *err)
{
	struct archive *from = lib.read_new(), *to = lib.write_disk_new();
	struct archive_entry *entry;
	int result = 0, got = ARCHIVE_OK, count = 0;
	lib.read_support_filter_all(from);
	lib.read_support_format_tar(from);
	lib.write_disk_set_options(to, ARCHIVE_EXTRACT_OWNER | ARCHIVE_EXTRACT_PERM |
					       ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_XATTR |
					       ARCHIVE_EXTRACT_UNLINK |
					       ARCHIVE_EXTRACT_SECURE_NODOTDOT);
	if (lseek(fd, 0, SEEK_SET) < 0 || lib.read_open_fd(from, fd, 65536) != ARCHIVE_OK)
		result = err_set(err, ERR_INVALID, "no archive: %s", lib.error_string(from));
	while (result == 0 && (got = lib.read_next_header(from, &entry)) >= ARCHIVE_WARN &&
	       got != ARCHIVE_EOF) {
		const char *path = lib.entry_pathname(entry);
		while (path && (*path == '/' || !strncmp(path, "./", 2)))
			path += *path == '/' ? 1 : 2;
		if (++count > ENTRIES_MAX)
			result = err_set(err, ERR_TOO_LARGE, "more than %d files", ENTRIES_MAX);
		else if (!path || !*path || !strcmp(path, "."))
			continue;
		else if (layer && is_whiteout(path))
			result = whiteouts ? apply_whiteout(path, err) : 0;
		else if (!whiteouts)
			result = unpack_entry(from, to, entry, path, layer, err);
	}
	if (result == 0 && got != ARCHIVE_EOF)
		result = err_set(err, ERR_INVALID, "the archive is damaged: %s",
				 lib.error_string(from));
	lib.write_free(to);
	lib.read_free(from);
	return result;
}

/* Without an archive the root gets its user. */
static int work_here(int fd, int root, bool layer, struct err *err)
{
	setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8 */
	umask(0);
	if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return err_set(err, errno, "chroot");
	if (drop_privileges(err) < 0)
		return -1;
	if (fd < 0)
		return fit_check(err) < 0 ? -1 : gem_add(err);
	if (layer && unpack(fd, true, true, err) < 0)
		return -1;
	return unpack(fd, layer, false, err);
}

/* ---- outside ---- */

/* In a process of its own, which never comes back out of its root. */
static int work_in(int fd, const char *root, bool layer, struct err *err)
{
	int pipe_fds[2];
	struct err said = { 0 };
	auto_close int top = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return err_set(err, errno, "'%s'", root);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	pid_t pid = ids_fork(ids_of_templates(), err);
	if (pid == 0) {
		if (work_here(fd, top, layer, &said) < 0)
			(void)!write(pipe_fds[1], &said, sizeof said);
		_exit(said.code ? 1 : 0);
	}
	close(pipe_fds[1]);
	ssize_t n = read(pipe_fds[0], &said, sizeof said);
	close(pipe_fds[0]);
	int status = 0;
	if (pid < 0)
		return -1;
	if (waitpid(pid, &status, 0) < 0)
		return err_set(err, errno, "waiting for the process that unpacks");
	if (n == (ssize_t)sizeof said) {
		if (err)
			*err = said;
		return -1;
	}
	return status ? err_set(err, ERR_INTERNAL, "the process that unpacks has died") : 0;
}

static int check_digest(int fd, const char *hex, struct err *err)
{
	unsigned char sum[EVP_MAX_MD_SIZE], piece[65536];
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
	if (n < 0 || strcasecmp(text, hex) != 0)
		return err_set(err, ERR_INVALID,
			       "the image is damaged: blob %.12s is not what it says", hex);
	return 0;
}

/* A file of the image's directory, whose name the image itself chose. */
static int open_below(const char *dir, const char *name, struct err *err)
{
	/* A layer that is there twice is a link the second time. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	struct stat st;
	auto_close int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = at < 0 ? -1 : (int)syscall(SYS_openat2, at, name, &how, sizeof how);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "the image lacks '%.100s'", name);
	return TAKE_FD(fd);
}

static int open_blob(const char *dir, const json_t *descriptor, struct err *err)
{
	const char *digest = json_string_value(json_object_get(descriptor, "digest"));
	if (!digest || strncmp(digest, "sha256:", 7) != 0 || strlen(digest) != 71 ||
	    strspn(digest + 7, "0123456789abcdef") != 64)
		return err_set(err, ERR_INVALID, "the image has a digest that is not sha256");
	auto_free char *name = xasprintf("blobs/sha256/%s", digest + 7);
	auto_close int fd = open_below(dir, name, err);
	if (fd < 0 || check_digest(fd, digest + 7, err) < 0)
		return -1;
	return TAKE_FD(fd);
}

static json_t *read_json(int fd)
{
	return fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
}

#ifdef __aarch64__
#define MACHINE "arm64"
#else
#define MACHINE "amd64"
#endif

/* Of an index: the manifest for this machine, else the first. */
static const json_t *choose(const json_t *index)
{
	const json_t *manifests = json_object_get(index, "manifests");
	for (size_t i = 0; i < json_array_size(manifests); i++) {
		const json_t *m = json_array_get(manifests, i), *p = json_object_get(m, "platform");
		const char *machine = json_string_value(json_object_get(p, "architecture"));
		if (machine && !strcmp(machine, MACHINE))
			return m;
	}
	return json_array_get(manifests, 0);
}

static int unpack_layers(const char *dir, const json_t *layers, bool blobs, const char *root,
			 struct err *err)
{
	if (!json_array_size(layers) || json_array_size(layers) > LAYERS_MAX)
		return err_set(err, ERR_INVALID, "the image has %zu layers",
			       json_array_size(layers));
	for (size_t i = 0; i < json_array_size(layers); i++) {
		const json_t *layer = json_array_get(layers, i);
		const char *name = json_string_value(layer);
		auto_close int fd = blobs ? open_blob(dir, layer, err)
					  : open_below(dir, name ? name : "/", err);
		if (fd < 0 || work_in(fd, root, true, err) < 0)
			return -1;
	}
	return 0;
}

static int import_oci(const char *dir, const char *root, json_t **ret_config, struct err *err)
{
	auto_close int fd = open_below(dir, "index.json", err);
	json_t *at = read_json(fd);
	for (int depth = 0; at && !json_object_get(at, "layers") && depth < DEPTH_MAX; depth++) {
		auto_close int next = open_blob(dir, choose(at), err);
		json_decref(at);
		if (next < 0)
			return -1;
		at = read_json(next);
	}
	int result = json_object_get(at, "layers")
			     ? unpack_layers(dir, json_object_get(at, "layers"), true, root, err)
			     : err_set(err, ERR_INVALID, "the image has no manifest");
	if (result == 0 && json_object_get(at, "config")) {
		auto_close int config = open_blob(dir, json_object_get(at, "config"), err);
		*ret_config = read_json(config);
		result = config < 0 ? -1 : 0;
	}
	json_decref(at);
	return result;
}

static int import_docker(const char *dir, const char *root, json_t **ret_config, struct err *err)
{
	auto_close int fd = open_below(dir, "manifest.json", err);
	json_t *list = read_json(fd), *first = json_array_get(list, 0);
	const char *name = json_string_value(json_object_get(first, "Config"));
	int result =
		first ? unpack_layers(dir, json_object_get(first, "Layers"), false, root, err)
		      : err_set(err, ERR_INVALID,
				"its manifest.json is not that of 'docker save' (an OCI layout has "
				"index.json)");
	auto_close int config = result < 0 || !name ? -1 : open_below(dir, name, NULL);
	*ret_config = read_json(config);
	json_decref(list);
	return result;
}

static bool has(const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* 1 if it was an image, 0 if not. */
static int import_dir(const char *dir, const char *root, json_t **ret_config, struct err *err)
{
	if (has(dir, "index.json"))
		return import_oci(dir, root, ret_config, err) < 0 ? -1 : 1;
	if (has(dir, "manifest.json"))
		return import_docker(dir, root, ret_config, err) < 0 ? -1 : 1;
	return 0;
}

static int own(const char *dir, struct err *err)
{
	uint32_t owner = ids_of_templates();
	return owner && chown(dir, owner, owner) < 0 ? err_set(err, errno, "chown '%s'", dir) : 0;
}

static int make_dir(const char *dir, struct err *err)
{
	return mkdir(dir, 0755) < 0 ? err_set(err, errno, "mkdir '%s'", dir) : own(dir, err);
}

static int import_file(const char *from, const char *to, const char *root, json_t **ret_config,
		       struct err *err)
{
	auto_free char *inner = xasprintf("%s/image", to);
	auto_close int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, ERR_INVALID, "'%s': %s", from, strerror(errno));
	if (make_dir(inner, err) < 0)
		return -1;
	if (work_in(fd, inner, false, err) < 0)
		return -1;
	int result = import_dir(inner, root, ret_config, err);
	if (result == 0) /* no image: the root file system itself */
		return rmdir(root) < 0 || rename(inner, root) < 0 ? err_set(err, errno, "rename")
								  : 0;
	return result < 0 || files_remove(inner, err) < 0 ? -1 : 0;
}

/* The root with its user, and beside it what its image says about running it. */
static int finish(const char *root, const char *to, const json_t *config, struct err *err)
{
	if (work_in(-1, root, false, err) < 0)
		return -1;
	auto_free char *path = xasprintf("%s/" IMPORT_SETTINGS, to);
	json_t *settings = image_settings(config, root);
	int result = json_dump_file(settings, path, JSON_COMPACT);
	json_decref(settings);
	return result < 0 ? err_set(err, EIO, "cannot write '%s'", path) : 0;
}

int import_tree(const char *from, const char *to, struct err *err)
{
	struct stat st;
	json_t *config = NULL;
	auto_free char *root = xasprintf("%s/root", to);
	if (load_library(err) < 0)
		return -1;
	if (stat(from, &st) < 0)
		return err_set(err, ERR_INVALID, "'%s': %s", from, strerror(errno));
	if (own(to, err) < 0 || make_dir(root, err) < 0)
		return -1;
	int result = 1;
	if (S_ISDIR(st.st_mode))
		result = import_dir(from, root, &config, err);
	else if (import_file(from, to, root, &config, err) < 0)
		result = -1;
	if (result == 0)
		result = err_set(
			err, ERR_INVALID,
			"'%s' is no image: it has no index.json or manifest.json (pack a root file "
			"system with tar)",
			from);
	else if (result > 0 && !has(root, "bin/sh") && !has(root, "usr/bin") && !has(root, "bin"))
		result = err_set(err, ERR_INVALID, "'%s' holds no root file system: it has no /bin",
				 from);
	if (result > 0)
		result = finish(root, to, config, err);
	json_decref(config);
	return result;
}

int import_main(int argc, char **argv)
{
	struct err err;
	if (argc == 3 && import_tree(argv[1], argv[2], &err) == 0)
		return 0;
	if (argc == 3)
		fputs(err.msg, stdout);
	return 1;
}
