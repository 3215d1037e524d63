#include "mcp/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "mcp/exchange.h"

int page_start(struct exchange *ex, size_t *ret_at)
{
	const json_t *cursor = json_object_get(ex->params, "cursor");
	const char *text = json_string_value(cursor);
	*ret_at = 0;
	if (!cursor || json_is_null(cursor))
		return 0;
	size_t digits = text && !strncmp(text, "at-", 3) ? strspn(text + 3, "0123456789") : 0;
	if (!digits || digits > 9 || text[3 + digits])
		return exchange_fail(ex, RPC_PARAMS, "unknown cursor");
	*ret_at = strtoul(text + 3, NULL, 10);
	return 0;
}

void page_end(struct exchange *ex, size_t at, size_t total)
{
	char cursor[32];
	if (at + PAGE_SIZE >= total)
		return;
	snprintf(cursor, sizeof cursor, "at-%zu", at + PAGE_SIZE);
	jw_key_str(&ex->jw, "nextCursor", cursor);
}
