#include "base/html.h"

#include <string.h>

#include "base/buf.h"

void html_escape(struct buf *to, const char *text)
{
	for (; *text; text++)
		if (strchr("<>&\"'", *text))
			buf_printf(to, "&#%d;", *text);
		else
			buf_add(to, text, 1);
}
