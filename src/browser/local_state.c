#include "browser/local_state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum { STATE_MAX = 16 << 20 };

/* An empty one if the file is missing or cannot be read: Chromium replaces it then, too. */
static json_t *read_state(const char *path)
{
	struct stat st;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	json_t *state = NULL;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= STATE_MAX)
		state = json_loadfd(fd, 0, NULL);
	if (json_is_object(state))
		return state;
	json_decref(state);
	return json_object();
}

static int write_state(const char *path, const json_t *state, struct err *err)
{
	auto_free char *new = xasprintf("%s.aio", path);
	auto_close int fd =
		open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || json_dumpfd(state, fd, JSON_COMPACT) < 0 || rename(new, path) < 0)
		return err_set(err, errno, "write '%s'", path);
	return 0;
}

int local_state_set_dns(const char *profile, const char *templates, struct err *err)
{
	auto_free char *path = xasprintf("%s/Local State", profile);
	json_t *state = read_state(path);
	json_t *dns = json_pack("{s:s, s:s}", "mode", "automatic", "templates", templates);
	if (!dns)
		dns = json_object(); /* not UTF-8: no template */
	int result = 0;
	if (!json_equal(json_object_get(state, "dns_over_https"), dns)) {
		json_object_set(state, "dns_over_https", dns);
		result = write_state(path, state, err);
	}
	json_decref(dns);
	json_decref(state);
	return result;
}
