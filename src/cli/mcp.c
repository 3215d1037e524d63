/* aio mcp: an MCP server on standard input and output. In a box where a host runs, else on this machine,
 * which it then says. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "api/modules.h"
#include "api/routes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/mcp_relay.h"
#include "cli/own_box.h"
#include "cli/remote.h"
#include "cli/verbs.h"
#include "config/config.h"
#include "host/host.h"
#include "mcp/stdio.h"
#include "net/server.h"
#include "proc/spawn.h"
#include "proc/stage.h"

static const char help[] =
	"Usage: aio mcp [--box NAME | --no-box] [options]\n"
	"       aio mcp list | tools | call: those of a sandbox (each has --help)\n\n"
	"An MCP server on standard input and output, for clients that start their servers themselves:\n\n"
	"  { \"mcpServers\": { \"sandbox\": { \"command\": \"aio\", \"args\": [\"mcp\"] } } }\n\n"
	"Where a host runs ('aio up'), it makes a box for this client, which is deleted when the client\n"
	"ends. Where none runs, commands run on this machine as you, without isolation, and the model is\n"
	"told so.\n\n"
	"Options:\n"
	"  --box NAME\n      Use this box of the host. It stays.\n"
	"  --no-box\n      Run on this machine, without isolation. Further options are those of 'aio serve'\n"
	"      for the workspace, the user, limits, other MCP servers and the log.\n"
	"  --state DIR\n      State directory of the host. AIO_STATE; default /var/lib/aiobox.\n"
	"  --help\n      Print this and exit.\n\n"
	"The host is found through its state directory, or through AIO_URL and AIO_HOST_TOKEN.\n\n"
	"Options of a box of its own, as for 'aio create'. Its --timeout (default 2m) is renewed while the\n"
	"client is there: the host deletes the box this long after aio mcp was killed; with 0, never.\n";

struct mcp_wish {
	const char *box;
	bool unboxed;
	struct remote remote;
	int argc; /* of what is left, with the command's name */
	char **argv;
};

static int wrong(const struct err *err)
{
	fprintf(stderr, "aio mcp: %s\n", err->msg);
	return err->code == ERR_INVALID ? 2 : 1;
}

/* What the server prints by mistake must not be taken for a message. */
static int take_stdout(void)
{
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	return out;
}

static void block_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGINT);
	sigprocmask(SIG_BLOCK, signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* ---- on this machine ---- */

static int serve_here(struct mcp_wish *wish)
{
	static struct config config; /* its strings live as long as the process */
	struct server server;
	struct err err;
	sigset_t signals;
	stage_enter();
	block_signals(&signals);
	signal(SIGXFSZ, SIG_IGN);
	spawn_raise_limit();
	if (config_load(&config, wish->argc, wish->argv, &err) < 0)
		return wrong(&err);
	config.unisolated = true;
	if (!wish->unboxed)
		fprintf(stderr,
			"aio mcp: no host runs here ('aio up'), so there is no box: commands run as '%s' on "
			"this machine, without isolation (--no-box: without this line)\n",
			config.user);
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

/* ---- in a box ---- */

static int serve_box(const struct mcp_wish *wish, const char *id, int signals, struct err *err)
{
	char *box[3] = { NULL };
	if (remote_box(&wish->remote, id, box, err) < 0)
		return -1;
	auto_close int out = take_stdout();
	mcp_relay(&wish->remote, box, signals, STDIN_FILENO, out);
	free(box[0]);
	free(box[1]);
	return 0;
}

/* Those of the box to be made; for a box that is there, none. */
static int box_flags(const struct mcp_wish *wish, json_t *to, struct err *err)
{
	int at = 1;
	if (!wish->box &&
	    flags_parse(&sandboxes_create_schema, wish->argc, wish->argv, &at, to, err) < 0)
		return -1;
	return at == wish->argc
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "'%s' is not an option of %s (see --help); options of 'aio serve' "
				 "go with --no-box",
				 wish->argv[at], wish->box ? "a box that is there" : "a box");
}

static int serve_own_box(const struct mcp_wish *wish, json_t *fields, int signals, struct err *err)
{
	struct own_box own;
	if (own_box_make(&own, &wish->remote, fields, err) < 0)
		return -1;
	int result = serve_box(wish, own.id, signals, err);
	own_box_end(&own);
	return result;
}

static int serve_there(const struct mcp_wish *wish)
{
	struct err err;
	sigset_t signals;
	json_t *fields = json_object();
	block_signals(&signals);
	auto_close int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	int result = box_flags(wish, fields, &err);
	if (result == 0)
		result = wish->box ? serve_box(wish, wish->box, signal_fd, &err)
				   : serve_own_box(wish, json_incref(fields), signal_fd, &err);
	json_decref(fields);
	if (result < 0)
		flags_name(&sandboxes_create_schema, &err);
	return result < 0 ? wrong(&err) : 0;
}

/* ---- which ---- */

/* 1 for --help. What is not ours stays in argv. */
static int take_wish(int argc, char **argv, struct mcp_wish *wish, struct err *err)
{
	wish->argv[wish->argc++] = argv[0];
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i], **value = NULL;
		size_t len = strcspn(arg, "=");
		if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
			return 1;
		if (!strncmp(arg, "--box", len) && len == 5)
			value = &wish->box;
		else if (!strncmp(arg, "--state", len) && len == 7)
			value = &wish->remote.state;
		if (!strcmp(arg, "--no-box"))
			wish->unboxed = true;
		else if (!value)
			wish->argv[wish->argc++] = argv[i];
		else if (arg[len] || i + 1 < argc)
			*value = arg[len] ? arg + len + 1 : argv[++i];
		else
			return err_set(err, ERR_INVALID, "%s needs a value (see --help)", arg);
	}
	if (wish->box && wish->unboxed)
		return err_set(err, ERR_INVALID, "--box and --no-box: only one of them");
	return 0;
}

/* Whether there is a host: 0, or -1 with why it cannot be used. Without one that was asked for, this
 * machine is used instead. */
static int find_host(struct mcp_wish *wish, struct err *err)
{
	const char *url = getenv("AIO_URL");
	bool wanted = wish->box || (url && *url);
	if (wish->unboxed)
		return 0;
	int found = remote_find(&wish->remote, err);
	json_t *list =
		found < 0 ? NULL
			  : remote_call(&wish->remote, "GET", "/v1/sandboxes?limit=1", NULL, err);
	bool there = list;
	json_decref(list);
	if (there)
		return 0;
	if (err->code == ERR_FORBIDDEN && !wanted) {
		struct err why = *err;
		return err_set(
			err, ERR_FORBIDDEN,
			"%.300s; or --no-box, with which commands run as you on this machine, "
			"without isolation",
			why.msg);
	}
	if (wanted || err->code != ERR_UNAVAILABLE)
		return -1;
	*wish->remote.url = 0;
	return 0;
}

int cmd_mcp(int argc, char **argv)
{
	int words;
	if (verbs_find(argc, argv, &words))
		return cmd_api(argc, argv);
	struct err err;
	struct mcp_wish wish = { .remote = { .state = remote_state() },
				 .argv = xcalloc((size_t)argc + 1, sizeof(char *)) };
	auto_free char **kept = wish.argv;
	(void)kept;
	int result = take_wish(argc, argv, &wish, &err);
	if (result == 1) {
		fputs(help, stdout);
		flags_help(&sandboxes_create_schema);
		puts("\nVerbs, for the MCP servers of a sandbox:");
		api_help(stdout, "mcp");
		return 0;
	}
	if (result == 0)
		result = find_host(&wish, &err);
	if (result < 0)
		return wrong(&err);
	return *wish.remote.url ? serve_there(&wish) : serve_here(&wish);
}
