#include "host/layer.h"

#include <string.h>

#include "base/err.h"

#define MARK \
	"."  \
	"wh."

static int refuse(const char *name, const char *why, struct err *err)
{
	return err_set(err, ERR_INVALID, "the archive's entry '%.200s' %s", name, why);
}

int layer_path(const char *name, char to[PATH_MAX], struct err *err)
{
	size_t used = 0, len;
	int depth = 0;
	for (const char *at = name; *at; at += len + (at[len] == '/')) {
		len = strcspn(at, "/");
		if (len == 0 || (len == 1 && *at == '.'))
			continue;
		if (len == 2 && !memcmp(at, "..", 2))
			return refuse(name, "has '..' in its path", err);
		if (len > NAME_MAX || used + len + 2 > PATH_MAX)
			return refuse(name, "has a name that is too long", err);
		if (++depth > LAYER_DEPTH_MAX)
			return refuse(name, "is nested too deep", err);
		if (used)
			to[used++] = '/';
		memcpy(to + used, at, len);
		used += len;
	}
	to[used] = 0;
	return 0;
}

/* Of the last name of a path, which begins with the mark; the path becomes what is meant. */
static enum layer_kind whiteout(char *path, char *last)
{
	const char *name = last + strlen(MARK);
	if (!strcmp(name, MARK ".opq")) {
		last[last == path ? 0 : -1] = 0;
		return LAYER_OPAQUE;
	}
	if (!*name || !strcmp(name, ".") || !strcmp(name, "..") ||
	    !strncmp(name, MARK, strlen(MARK)))
		return LAYER_NOTHING;
	memmove(last, name, strlen(name) + 1);
	return LAYER_WHITEOUT;
}

int layer_entry(const char *name, bool layer, char to[PATH_MAX], enum layer_kind *ret,
		struct err *err)
{
	if (layer_path(name, to, err) < 0)
		return -1;
	char *slash = strrchr(to, '/'), *last = slash ? slash + 1 : to;
	if (layer && !strncmp(last, MARK, strlen(MARK)))
		*ret = whiteout(to, last);
	else
		*ret = *to ? LAYER_FILE : LAYER_NOTHING;
	return 0;
}
