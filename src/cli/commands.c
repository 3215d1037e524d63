#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/own.h"
#include "cli/verbs.h"

const struct command_row command_rows[] = {
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
	{ "openapi", "print the OpenAPI document of the API", cmd_openapi },
	{ "egress", "let one box reach some names of the network (the host starts it)",
	  cmd_egress },
	{ "completion", "complete the words of aio in bash, zsh or fish", cmd_completion },
	{ "help", "print this", cmd_help },
	{ NULL, NULL, NULL },
};

/* 'aio mcp' alone is a server. */
static int run_group(int argc, char **argv)
{
	return strcmp(argv[0], "mcp") != 0 ? cmd_api(argc, argv) : cmd_mcp(argc, argv);
}

static void suggest(const char *name)
{
	const char *meant = NULL;
	size_t best = NEAREST_FAR;
	for (size_t i = 0; command_rows[i].name; i++)
		if (nearest_better(name, command_rows[i].name, &best))
			meant = command_rows[i].name;
	for (size_t i = 0; verb_groups[i].name; i++)
		if (nearest_better(name, verb_groups[i].name, &best))
			meant = verb_groups[i].name;
	fprintf(stderr, "aio: unknown command '%s'%s%s%s (see 'aio help')\n", name,
		meant ? ": did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

int commands_run(int argc, char **argv)
{
	for (size_t i = 0; command_rows[i].name; i++)
		if (!strcmp(argv[0], command_rows[i].name))
			return command_rows[i].run(argc, argv);
	for (size_t i = 0; verb_groups[i].name; i++)
		if (!strcmp(argv[0], verb_groups[i].name))
			return run_group(argc, argv);
	suggest(argv[0]);
	return 2;
}

/* 'aio help COMMAND' is 'aio COMMAND --help'. */
int cmd_help(int argc, char **argv)
{
	char flag[] = "--help";
	if (argc == 2 && !strcmp(argv[1], "verbs")) {
		api_help_all();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "help") != 0 && argv[1][0] != '-') {
		memmove(argv, argv + 1, sizeof *argv * (size_t)(argc - 1));
		argv[argc - 1] = flag;
		return commands_run(argc, argv);
	}
	printf("aio " AIO_VERSION
	       ": the all-in-one sandbox for AI agents\n\nUsage: aio COMMAND [options]\n\n");
	for (size_t i = 0; command_rows[i].name; i++)
		printf("  %-10s %s\n", command_rows[i].name, command_rows[i].about);
	printf("\nThe API of a sandbox, or of a box of the host (--box NAME):\n\n");
	for (size_t i = 0; verb_groups[i].name; i++)
		printf("  %-10s %s\n", verb_groups[i].name, verb_groups[i].about);
	printf("\n'aio COMMAND --help' has more, 'aio help verbs' all of the API's. 'aio --version' prints the version.\n");
	return 0;
}
