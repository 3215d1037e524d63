#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/modules.h"
#include "api/routes.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/config.h"
#include "mcp/stdio.h"
#include "net/server.h"
#include "proc/spawn.h"
#include "proc/stage.h"

static const char help[] =
	"Usage: aio mcp [options]\n\n"
	"An MCP server on standard input and output, for clients that start their servers themselves:\n\n"
	"  { \"mcpServers\": { \"sandbox\": { \"command\": \"aio\", \"args\": [\"mcp\"] } } }\n\n"
	"It has the same tools as /mcp of 'aio serve', whose options for the workspace, the user, limits,\n"
	"other MCP servers and the log it takes: see 'aio serve --help'.\n";

static int wrong(const struct err *err)
{
	fprintf(stderr, "aio mcp: %s\n", err->msg);
	return 2;
}

/* What the server prints by mistake must not be taken for a message. */
static int take_stdout(void)
{
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	return out;
}

int cmd_mcp(int argc, char **argv)
{
	static struct config config; /* its strings live as long as the process */
	struct server server;
	struct err err;
	sigset_t signals;
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help")) {
			fputs(help, stdout);
			return 0;
		}
	stage_enter();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	spawn_raise_limit();
	if (config_load(&config, argc, argv, &err) < 0)
		return wrong(&err);
	log_setup((enum log_level)config.log_level, (enum log_format)config.log_format);
	if (server_init(&server, &config.net, api_groups, &err) < 0)
		return wrong(&err);
	server.config = &config;
	auto_close int out = take_stdout();
	modules_start(&server);
	int result = stdio_serve(&server, STDIN_FILENO, out);
	modules_stop();
	modules_end();
	server_done(&server);
	return result < 0 ? 1 : 0;
}
