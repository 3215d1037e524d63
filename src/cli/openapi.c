#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/json.h"
#include "cli/commands.h"
#include "host/host.h"

int cmd_openapi(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		puts("Usage: aio openapi [--host]\n\n"
		     "Prints the OpenAPI 3.1 document of the API on standard output: of a sandbox, or with\n"
		     "--host of 'aio up', which makes and manages sandboxes.");
		return 0;
	}
	bool host = argc == 2 && !strcmp(argv[1], "--host");
	if (argc > 1 && !host) {
		fprintf(stderr, "aio openapi: unexpected argument '%s' (see --help)\n", argv[1]);
		return 2;
	}
	const struct route_group *groups[HOST_OPENAPI_GROUPS];
	host_openapi_groups(groups);
	struct jw jw;
	jw_init(&jw, 64 << 20);
	openapi_write(host ? groups : api_groups, &jw);
	int result = fwrite(jw.out.data, 1, jw.out.len, stdout) == jw.out.len &&
				     putchar('\n') != EOF && fflush(stdout) == 0
			     ? 0
			     : 1;
	jw_done(&jw);
	return result;
}
