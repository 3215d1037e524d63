#include "mcp/tools_table.h"

const struct tool_table *const tool_tables[] = {
	&sandbox_tools, &file_tools, &shell_tools, &markitdown_tools, NULL,
};
