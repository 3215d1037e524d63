#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "box/maker.h"
#include "cli/commands.h"
#include "host/import.h"

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
	return argc > 1 ? commands_run(argc - 1, argv + 1) : cmd_help(0, argv);
}
