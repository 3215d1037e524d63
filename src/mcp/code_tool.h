/* code_tool.h - sandbox_execute_code: what it takes, what it returns, and running it. */
#pragma once
#include "mcp/tool.h"

extern const struct schema code_tool_in, code_tool_out;
tool_call code_tool_run;
