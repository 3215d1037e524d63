#include "mcp/revision.h"

#include <string.h>

const char *const mcp_revision_names[MCP_REVISIONS] = {
	"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28",
};

int mcp_revision_find(const char *name)
{
	for (int i = 0; name && i < MCP_REVISIONS; i++)
		if (!strcmp(mcp_revision_names[i], name))
			return i;
	return -1;
}
