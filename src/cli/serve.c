#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/modules.h"
#include "api/preview_page.h"
#include "api/routes.h"
#include "api/sign_in.h"
#include "assistant/assistants.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "cli/commands.h"
#include "code/kernels.h"
#include "config/config.h"
#include "config/reach.h"
#include "hook/hooks.h"
#include "net/auth.h"
#include "net/offline.h"
#include "net/server.h"
#include "proc/spawn.h"
#include "proc/stage.h"
#include "service/service.h"

static int wrong(const struct err *err)
{
	fprintf(stderr, "aio serve: %s\n", err->msg);
	return 2;
}

/* Blocked before any thread starts, so that only the main thread hears them, through a signalfd. */
static void block_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of write(), not our end */
}

static void say_ready(const struct server *server)
{
	if (server->local)
		printf("aio %s is ready on %s\n", AIO_VERSION, server->url);
	else
		printf("aio %s is ready: %s  (API explorer %s/v1/docs, manual for agents %s/llms.txt)\n",
		       AIO_VERSION, server->url, server->url, server->url);
	fflush(stdout);
}

/* The sandbox's own programs can call the server, and find out where. */
static void listen_inside(struct server *server)
{
	struct err err;
	const struct config *config = server->config;
	bool named = config->local_socket && *config->local_socket;
	const struct passwd *user = getpwnam(config->user); /* user_sandbox() costs two pages */
	const char *dir = named ? "" : stage_dir(&err);
	if (!user || !dir) {
		log_warn("the sandbox's own programs cannot call it: %s",
			 dir ? "no such user" : err.msg);
		return;
	}
	auto_free char *path = named ? xstrdup(config->local_socket)
				     : xasprintf("%s/api.sock", dir);
	local_open(&server->inside, path, (int)config->local_port, user->pw_uid, user->pw_gid);
	if (server->inside.path)
		setenv("AIO_LOCAL_SOCKET", path, 1);
	else
		unsetenv("AIO_LOCAL_SOCKET");
}

/* On a Unix socket a gateway does. */
static void ask_for_keys(struct server *server)
{
	if (server->local || !auth_enabled(server->auth))
		return;
	sign_in_load(server->home);
	server->ask_key = sign_in_ask;
}

/* Only in a box: its init is the parent. Elsewhere names are none of our business. */
static void answer_names(struct server *server)
{
	const char *mode = reach_mode(server->config->network);
	if (!mode || strcmp(mode, "none") != 0)
		return;
	server->offline_fd = offline_open();
	server->offline_hint = reach_offline_hint;
	if (server->offline_fd < 0)
		log_warn("programs that ask for names wait in vain: port 53 of 127.0.0.1: %s",
			 strerror(errno));
}

/* Boxes are what root and other machines belong into. */
static void warn_exposed(const struct server *server)
{
	if (geteuid() == 0 && !server->loopback && !getenv("AIO_SANDBOX_ID"))
		log_warn(
			"callers of %s get a shell on this machine, started by root and without "
			"isolation: %s can take the machine over. For isolated boxes at the same address "
			"run: SANDBOX_API_KEY=… aio up --listen %s",
			server->options->listen,
			auth_enabled(server->auth) ? "whoever has the key"
						   : "anyone who reaches this address",
			server->options->listen);
}

static void warm_kernel(struct server *server)
{
	const char *disabled = service_disabled("jupyter");
	struct err err = { 0 };
	if (!server->config->kernel_ready)
		return;
	if (disabled)
		log_warn("no kernel is ready: %s is set", disabled);
	else if (kernels_warm(server, &err) < 0)
		log_warn("no kernel is ready: %s", err.msg);
}

int serve_groups(int argc, char **argv, const struct route_group *const *groups)
{
	static struct config config; /* its strings live as long as the process */
	struct server server;
	struct err err;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "--help-markdown")) {
			(strcmp(argv[i], "--help") ? opt_help_markdown : opt_help)(&config_table);
			return 0;
		}
	}
	stage_enter();
	block_signals();
	spawn_raise_limit();
	if (config_load(&config, argc, argv, &err) < 0)
		return wrong(&err);
	log_setup((enum log_level)config.log_level, (enum log_format)config.log_format);
	int result = server_init(&server, &config.net, groups, &err);
	server.config = &config;
	if (result == 0)
		result = server_listen(&server, &err);
	preview_page_load(server.home);
	if (result == 0)
		ask_for_keys(&server);
	if (result == 0)
		listen_inside(&server); /* first: what is started next is told where */
	if (result == 0)
		result = assistants_configure(&config, &err);
	if (result == 0) {
		warn_exposed(&server);
		answer_names(&server);
		result = hooks_begin(&server, &err);
	}
	if (result == 0) {
		server.ending = hooks_shutdown;
		modules_start(&server);
		warm_kernel(&server);
		hooks_ready(&server, say_ready);
		bool ended = server_run(&server);
		modules_stop();
		if (!ended)
			_exit(0);
		modules_end();
	}
	server_done(&server);
	return result < 0 ? wrong(&err) : 0;
}

int cmd_serve(int argc, char **argv)
{
	return serve_groups(argc, argv, api_groups);
}
