/* tools_table.h - every table of built-in tools. A new group of tools is one more row here. */
#pragma once
#include "mcp/tool.h"

extern const struct tool_table sandbox_tools, browser_tools, browser_server_tools, file_tools,
	shell_tools, markitdown_tools;
