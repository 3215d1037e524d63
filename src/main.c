#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "box/maker.h"
#include "cli/commands.h"
#include "host/import.h"

static int cmd_help(int argc, char **argv);

static const struct main_command {
	const char *name, *about;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "serve", "run one sandbox server in the foreground", cmd_serve },
	{ "up", "run the host of this machine: many isolated boxes", cmd_up },
	{ "down", "end the host and its boxes", cmd_down },
	{ "ls", "list boxes", cmd_box },
	{ "create", "make a box", cmd_box },
	{ "inspect", "show all of a box: state, addresses, token, limits", cmd_box },
	{ "timeout", "have a box deleted after some time", cmd_box },
	{ "rm", "delete boxes", cmd_box },
	{ "exec", "run a command in a box", cmd_box },
	{ "logs", "print what a box's server wrote", cmd_box },
	{ "events", "print what happened to boxes", cmd_box },
	{ "top", "show what each box uses", cmd_box },
	{ "pause", "pause boxes", cmd_box },
	{ "resume", "resume boxes", cmd_box },
	{ "snapshot", "make a template of a box", cmd_box },
	{ "fork", "make a box from another's files", cmd_box },
	{ "template", "ls, import, build and rm: what boxes start from", cmd_box },
	{ "browser", "navigate and screenshot: a sandbox's browser", cmd_api },
	{ "gui", "screenshot: a sandbox's desktop", cmd_api },
	{ "sandbox", "info: what is in a sandbox", cmd_api },
	{ "skills", "list: a sandbox's skills", cmd_api },
	{ "mcp", "be an MCP server on standard input and output; list: those of a sandbox",
	  cmd_mcp },
	{ "openapi", "print the OpenAPI document of the API", cmd_openapi },
	{ "egress", "let one box reach some names of the network (the host starts it)",
	  cmd_egress },
	{ "help", "print this", cmd_help },
};

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(argc, argv);
	fprintf(stderr, "aio: unknown command '%s' (see 'aio help')\n", argv[0]);
	return 2;
}

/* 'aio help COMMAND' is 'aio COMMAND --help'. */
static int cmd_help(int argc, char **argv)
{
	char flag[] = "--help";
	if (argc > 1 && strcmp(argv[1], "help") != 0 && argv[1][0] != '-') {
		memmove(argv, argv + 1, sizeof *argv * (size_t)(argc - 1));
		argv[argc - 1] = flag;
		return run_command(argc, argv);
	}
	printf("aio " AIO_VERSION
	       ": the all-in-one sandbox for AI agents\n\nUsage: aio COMMAND [options]\n\n");
	for (size_t i = 0; i < COUNT(commands); i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].about);
	printf("\n'aio COMMAND --help' has more. 'aio --version' prints the version.\n");
	return 0;
}

/* A standard descriptor that is closed would be the next one that is opened, whatever that is. */
static void fill_standard(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", O_RDWR);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";
	fill_standard();
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the ends of children from us */
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts("aio " AIO_VERSION);
		return 0;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		return cmd_help(argc, argv);
	if (!strcmp(name, MAKER_COMMAND))
		return maker_main(argc - 1, argv + 1, cmd_serve);
	if (!strcmp(name, IMPORT_COMMAND))
		return import_main(argc - 1, argv + 1);
	return argc > 1 ? run_command(argc - 1, argv + 1) : cmd_help(0, argv);
}
