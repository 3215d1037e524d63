#include "proc/oom.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int counter = -1;

void oom_use(int fd)
{
	counter = fd;
}

int64_t oom_count(void)
{
	static const char word[] = "\noom_kill ";
	char text[1024];
	ssize_t n = counter < 0 ? -1 : pread(counter, text, sizeof text - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	const char *at = strstr(text, word);
	return at ? strtoll(at + sizeof word - 1, NULL, 10) : 0;
}
