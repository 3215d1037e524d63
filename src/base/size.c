#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int size_parse(const char *text, int64_t *ret)
{
	static const char units[] = "KMGT";
	size_t digits = strspn(text, "0123456789.");
	char *end;
	double value = strtod(text, &end);
	if (!digits || end != text + digits) /* no sign, exponent, "0x" or "inf" */
		return -1;
	end += *end == ' ';
	const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (unit && *unit) {
		value *= (double)(1ll << (10 * (unit - units + 1)));
		end++;
		end += *end == 'i' || *end == 'I';
	}
	end += *end == 'B' || *end == 'b';
	if (*end || end[-1] == ' ' || (end[-1] | 0x20) == 'i' || value != floor(value) ||
	    value > 0x1p53)
		return -1;
	*ret = (int64_t)value;
	return 0;
}
