/* A configuration of other MCP servers: whatever is in it, each entry can be used or says why not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "mcp/hub_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *text = xstrndup("", 0);
	text = xrealloc(text, len + 1);
	memcpy(text, data, len);
	text[len] = 0;
	struct hub_entry *entry = hub_config_parse(text, len);
	for (struct hub_entry *next; entry; entry = next) {
		next = entry->next;
		if (!entry->problem && !entry->spec.command == !entry->spec.url)
			abort();
		hub_entry_free(entry);
	}
	return 0;
}
