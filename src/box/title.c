#include "box/title.h"

#include <string.h>

static char *begin, *end;

void title_init(int argc, char **argv)
{
	if (argc < 1)
		return;
	begin = argv[0];
	end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
}

void title_set(const char *title)
{
	if (!begin)
		return;
	memset(begin, 0, (size_t)(end - begin));
	size_t room = (size_t)(end - begin) - 1, len = strlen(title);
	memcpy(begin, title, len < room ? len : room);
}
