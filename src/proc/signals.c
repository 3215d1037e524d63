#include "proc/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int signal_number(const char *name)
{
	char *end;
	long number = strtol(name, &end, 10);
	if (end != name && !*end)
		return number > 0 && number < NSIG ? (int)number : 0;
	if (!strncasecmp(name, "SIG", 3))
		name += 3;
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i) && !strcasecmp(sigabbrev_np(i), name))
			return i;
	return 0;
}
