#include "host/image.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/own.h"

enum { GEM = 1000, VARIABLES_MAX = 256, NAME_LEN_MAX = 256, VARIABLES_LEN = 64 << 10 };

/* What the box's server is set up with, or every command gets from it. */
static const char *const ours[] = {
	"HOME",
	"USER",
	"LOGNAME",
	"SHELL",
	"PWD",
	"WORKSPACE",
	"SANDBOX_API_KEY",
	"AUTH_TOKEN",
	"TICKET_TTL_SECONDS",
	"LISTEN_FDS",
	"LISTEN_PID",
	"PUBLIC_PORT",
	"JWT_PUBLIC_KEY",
};

static bool is_ours(const char *pair, size_t len)
{
	for (size_t i = 0; i < COUNT(ours); i++)
		if (strlen(ours[i]) == len && !memcmp(ours[i], pair, len))
			return true;
	return !strncmp(pair, "AIO_", 4);
}

static json_t *variables(const json_t *list)
{
	json_t *env = json_object(), *one;
	size_t i, total = 0;
	json_array_foreach(list, i, one) {
		const char *pair = json_string_value(one),
			   *equals = pair ? strchr(pair, '=') : NULL;
		size_t len = equals ? (size_t)(equals - pair) : 0;
		if (!len || len > NAME_LEN_MAX || strcspn(pair, " \t\n") < len ||
		    is_ours(pair, len))
			continue;
		total += json_string_length(one);
		if (total > VARIABLES_LEN || json_object_size(env) == VARIABLES_MAX)
			break;
		json_object_setn_new(env, pair, len, json_string(equals + 1));
	}
	return env;
}

/* May gem go there? Each directory on the way must let it through; the root is root's. */
static bool can_enter(int root, const char *dir)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	auto_free char *path = xstrdup(dir);
	for (char *at = path + 1; at;) {
		at = strchr(at, '/');
		if (at)
			*at = 0;
		struct stat st;
		auto_close int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
		mode_t wanted = at ? S_IXOTH : S_IXOTH | S_IROTH;
		if (fd < 0 || fstat(fd, &st) < 0)
			return false;
		if (st.st_uid == GEM)
			wanted <<= 6;
		if ((st.st_mode & wanted) != wanted)
			return false;
		if (at)
			*at++ = '/';
	}
	return true;
}

json_t *image_settings(const json_t *config, const char *root)
{
	const json_t *inner = json_object_get(config, "config");
	const char *dir = json_string_value(json_object_get(inner, "WorkingDir"));
	json_t *settings = json_pack("{so}", "env", variables(json_object_get(inner, "Env")));
	auto_close int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && dir && *dir == '/' && dir[1] && strlen(dir) < PATH_MAX / 2 &&
	    can_enter(fd, dir))
		json_object_set_new(settings, "workdir", json_string(dir));
	return settings;
}

static void add(json_t *to, const char *name, const char *value)
{
	auto_free char *pair = xasprintf("%s=%s", name, value);
	json_array_append_new(to, json_string(pair));
}

void image_environment(const json_t *settings, const json_t *own, json_t *to)
{
	const char *name, *dir = json_string_value(json_object_get(settings, "workdir"));
	json_t *value;
	json_object_foreach(json_object_get(settings, "env"), name, value)
		if (!json_object_get(own, name) && json_is_string(value) &&
		    !is_ours(name, strlen(name)))
			add(to, name, json_string_value(value));
	if (dir && !json_object_get(own, "WORKSPACE"))
		add(to, "WORKSPACE", dir);
}
