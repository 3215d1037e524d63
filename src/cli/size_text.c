#include "cli/size_text.h"

#include <stdio.h>

const char *size_text(double bytes, char *to, size_t room)
{
	static const char units[] = "BKMGTP";
	int unit = 0;
	for (; bytes >= 1024 && units[unit + 1]; unit++)
		bytes /= 1024;
	snprintf(to, room, unit && bytes < 10 ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
	return to;
}
