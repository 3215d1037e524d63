#include "mcp/tools_table.h"

const struct tool_table *const tool_tables[] = {
	/* clang-format off */
	&sandbox_tools,
	&browser_tools,
	&browser_server_tools,
	&file_tools,
	&shell_tools,
	&markitdown_tools,
	NULL,
	/* clang-format on */
};
