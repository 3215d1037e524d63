#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/json.h"
#include "cli/commands.h"

int cmd_openapi(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		puts("Usage: aio openapi\n\nPrints the OpenAPI 3.1 document of the API on standard output.");
		return 0;
	}
	if (argc > 1) {
		fprintf(stderr, "aio openapi: unexpected argument '%s' (see --help)\n", argv[1]);
		return 2;
	}
	struct jw jw;
	jw_init(&jw, 64 << 20);
	openapi_write(api_groups, &jw);
	int result = fwrite(jw.out.data, 1, jw.out.len, stdout) == jw.out.len &&
				     putchar('\n') != EOF && fflush(stdout) == 0
			     ? 0
			     : 1;
	jw_done(&jw);
	return result;
}
