#include "outbound/upstream_proxy.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "net/server.h"
#include "outbound/rule.h"
#include "proc/child.h"
#include "proc/environment.h"
#include "proc/user.h"

enum {
	COMMAND_MS = 10000,
	COMMAND_OUTPUT_MAX = 4096,
	KNOWN_MS = 60000, /* how long credentials are shown before the command is run again */
	AGAIN_MS = 1000,  /* a command that has just been run is not run again */
};

struct upstream_proxy {
	_Atomic int refs;
	struct server *server;
	char host[URL_HOST_MAX + 1], address[URL_HOST_MAX + 16];
	int port;
	char *auth_cmd; /* NULL: the credentials are those of the address */
	pthread_mutex_t lock;
	char *user, *authorization; /* NULL: none */
	struct err failed;          /* how the command has failed; code 0: it has not */
	int64_t asked_ms;           /* when it was run; 0: never */
};

/* ---- credentials ---- */

/* "user:password" without anything else that a header could not hold. */
static bool is_clean(const char *text)
{
	for (const char *at = text; *at; at++)
		if (iscntrl((unsigned char)*at))
			return false;
	return strchr(text, ':') && *text != ':';
}

static char *basic(const char *credentials)
{
	auto_buf struct buf text = BUF(8192);
	(void)buf_str(&text, "Basic ");
	(void)base64_encode(&text, credentials, strlen(credentials));
	return TAKE(text.data);
}

static void set_credentials(struct upstream_proxy *proxy, const char *credentials)
{
	free(proxy->user);
	free(proxy->authorization);
	proxy->user = xstrndup(credentials, strcspn(credentials, ":"));
	proxy->authorization = basic(credentials);
}

/* As they stand in a URL; a '%' that stands for nothing is taken as it is. */
static int set_inline(struct upstream_proxy *proxy, const char *text, size_t len, struct err *err)
{
	auto_buf struct buf plain = BUF(RULE_TEXT_MAX + 1);
	if (url_decode(&plain, text, len) < 0)
		(void)buf_add(&plain, text, len);
	if (plain.data && !strchr(plain.data, ':'))
		(void)buf_str(&plain, ":");
	if (!plain.data || !is_clean(plain.data))
		return err_set(err, ERR_INVALID,
			       "invalid credentials of the upstream proxy: expected "
			       "user:password@host:port");
	set_credentials(proxy, plain.data);
	explicit_bzero(plain.data, plain.len);
	return 0;
}

/* ---- the command ---- */

/* It is handed over on a descriptor: a command line can be read by all users. */
static int open_script(const char *command, struct err *err)
{
	int pair[2];
	size_t len = strlen(command);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, ERR_LIMIT, "no pipe for auth_cmd");
	bool written = write(pair[1], command, len) == (ssize_t)len; /* less than a pipe holds */
	close(pair[1]);
	if (written)
		return pair[0];
	close(pair[0]);
	return err_set(err, ERR_INTERNAL, "auth_cmd cannot be handed over");
}

/* Its own requests do not go through the proxy, which waits for it. */
static char **make_environment(const struct upstream_proxy *proxy, const struct user *user,
			       struct arena *arena)
{
	static const struct pair none[] = {
		{ "http_proxy", "" }, { "https_proxy", "" }, { "all_proxy", "" },
		{ "HTTP_PROXY", "" }, { "HTTPS_PROXY", "" }, { "ALL_PROXY", "" },
	};
	return environment_make(arena, user, proxy->server->home,
				&(struct list){ COUNT(none), none });
}

/* More than that is no use: the command is ended. */
static bool take(void *arg, const char *data, size_t len)
{
	return buf_add(arg, data, len) == 0;
}

static int run_command(const struct upstream_proxy *proxy, struct buf *out, struct err *err)
{
	static const char *const argv[] = { "/bin/bash", "-c",
					    "c=$(cat <&3); exec 3<&-; eval \"$c\"", NULL };
	const struct user *user = user_sandbox(proxy->server->config->user, err);
	struct arena arena = { 0 };
	struct program_status end = { 0 };
	auto_close int script = user ? open_script(proxy->auth_cmd, err) : -1;
	if (script < 0)
		return -1;
	const struct child_spec spec = {
		.argv = (char *const *)argv,
		.env = make_environment(proxy, user, &arena),
		.dir = user->home,
		.user = user,
		.wait = { clock_ms() + COMMAND_MS, -1, server_stop_fd(proxy->server) },
		.extra = { script },
		.extras = 1,
		.take = take,
		.arg = out,
	};
	int result = child_run(&spec, NULL, &end, err);
	arena_done(&arena);
	if (result < 0 && err->code == ERR_SLOW)
		return err_set(err, ERR_BAD_REQUEST, "auth_cmd did not end within %d s",
			       COMMAND_MS / 1000);
	if (result < 0)
		return -1;
	return end.code && !out->full ? err_set(err, ERR_BAD_REQUEST,
						"auth_cmd failed with exit code %d", end.code)
				      : 0;
}

/* Has the command print new credentials. Nothing of its output is ever shown. */
static int ask(struct upstream_proxy *proxy, struct err *err)
{
	auto_buf struct buf out = BUF(COMMAND_OUTPUT_MAX);
	int result = run_command(proxy, &out, err);
	while (out.len && isspace((unsigned char)out.data[out.len - 1]))
		out.data[--out.len] = 0;
	if (result == 0 &&
	    (!out.len || out.full || strlen(out.data) != out.len || !is_clean(out.data)))
		result = err_set(err, ERR_BAD_REQUEST,
				 "auth_cmd did not print one line \"username:password\"");
	if (result == 0)
		set_credentials(proxy, out.data);
	if (out.data)
		explicit_bzero(out.data, out.len);
	proxy->failed = result < 0 ? *err : (struct err){ 0 };
	proxy->asked_ms = clock_ms();
	return result;
}

/* Whether what was printed last is to be shown once more. */
static bool is_known(const struct upstream_proxy *proxy, const char *refused)
{
	int64_t age_ms = clock_ms() - proxy->asked_ms;
	if (!proxy->asked_ms)
		return false;
	if (proxy->failed.code || (refused && !strcmp(refused, proxy->authorization)))
		return age_ms < AGAIN_MS;
	return age_ms < KNOWN_MS;
}

char *upstream_proxy_authorization(struct upstream_proxy *proxy, const char *refused,
				   struct err *err)
{
	err->code = 0;
	pthread_mutex_lock(&proxy->lock);
	if (proxy->auth_cmd && !is_known(proxy, refused))
		(void)ask(proxy, err);
	else if (proxy->failed.code)
		*err = proxy->failed;
	char *shown = err->code || !proxy->authorization ? NULL : xstrdup(proxy->authorization);
	pthread_mutex_unlock(&proxy->lock);
	if (refused && !err->code && (!shown || !strcmp(refused, shown))) {
		free(shown);
		err_set(err, ERR_UNAVAILABLE, "the upstream proxy %s refuses the credentials",
			proxy->address);
		return NULL;
	}
	return shown;
}

char *upstream_proxy_user(struct upstream_proxy *proxy)
{
	pthread_mutex_lock(&proxy->lock);
	char *user = proxy->user ? xstrdup(proxy->user) : NULL;
	pthread_mutex_unlock(&proxy->lock);
	return user;
}

bool upstream_proxy_trouble(struct upstream_proxy *proxy, char *to, size_t room)
{
	pthread_mutex_lock(&proxy->lock);
	bool failed = proxy->failed.code != 0;
	snprintf(to, room, "%s", proxy->failed.msg);
	pthread_mutex_unlock(&proxy->lock);
	return failed;
}

/* ---- which one it is ---- */

static int parse(struct upstream_proxy *proxy, const char *text, struct err *err)
{
	const char *scheme = strstr(text, "://");
	const char *rest = scheme ? scheme + 3 : text;
	size_t len = strcspn(rest, "/?#");
	const char *at = memrchr(rest, '@', len), *host = at ? at + 1 : rest;
	auto_free char *name = xstrndup(host, (size_t)(rest + len - host));
	if (scheme && strncasecmp(text, "http://", 7) != 0)
		return err_set(err, ERR_INVALID,
			       "the upstream proxy must be an HTTP proxy: expected host:port or "
			       "user:password@host:port");
	bool valid = strlen(text) <= RULE_TEXT_MAX && strcspn(rest + len, "/") == 0 &&
		     strlen(rest + len) <= 1 &&
		     url_host_split(name, proxy->host, sizeof proxy->host, &proxy->port) == 0;
	if (valid && !proxy->port && scheme)
		proxy->port = 80;
	if (!valid || !proxy->port)
		return err_set(err, ERR_INVALID,
			       "invalid upstream proxy: expected host:port or "
			       "user:password@host:port");
	snprintf(proxy->address, sizeof proxy->address,
		 strchr(proxy->host, ':') ? "[%s]:%d" : "%s:%d", proxy->host, proxy->port);
	/* Those that the command prints take their place. */
	return at && !proxy->auth_cmd ? set_inline(proxy, rest, (size_t)(at - rest), err) : 0;
}

struct upstream_proxy *upstream_proxy_new(struct server *server, const char *text,
					  const char *auth_cmd, struct err *err)
{
	struct upstream_proxy *proxy = xcalloc(1, sizeof *proxy);
	proxy->refs = 1;
	proxy->server = server;
	proxy->auth_cmd = auth_cmd && *auth_cmd ? xstrdup(auth_cmd) : NULL;
	pthread_mutex_init(&proxy->lock, NULL);
	if (parse(proxy, text, err) == 0)
		return proxy;
	upstream_proxy_unref(proxy);
	return NULL;
}

struct upstream_proxy *upstream_proxy_ref(struct upstream_proxy *proxy)
{
	proxy->refs++;
	return proxy;
}

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void upstream_proxy_unref(struct upstream_proxy *proxy)
{
	if (!proxy || --proxy->refs > 0)
		return;
	wipe(proxy->auth_cmd);
	wipe(proxy->authorization);
	free(proxy->user);
	pthread_mutex_destroy(&proxy->lock);
	free(proxy);
}

const char *upstream_proxy_host(const struct upstream_proxy *proxy)
{
	return proxy->host;
}

int upstream_proxy_port(const struct upstream_proxy *proxy)
{
	return proxy->port;
}

const char *upstream_proxy_address(const struct upstream_proxy *proxy)
{
	return proxy->address;
}
