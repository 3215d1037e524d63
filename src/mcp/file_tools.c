/* Tools under the names that guides show: each a route by itself. They are answered, and listed only
 * for those who ask for their server. */
#include "base/own.h"
#include "mcp/tools_table.h"

#define ROUTE(name, title, help, route, more)                                      \
	{                                                                          \
		name, title, help, route, .flags = TOOL_ALIAS | TOOL_SLOW | (more) \
	}

static const struct tool file_rows[] = {
	ROUTE("file_read", "Read a file", "Reads a text file, or some lines of it.",
	      "POST /v1/file/read", TOOL_READS),
	ROUTE("file_write", "Write a file", "Writes a file: all of it, or at its end.",
	      "POST /v1/file/write", TOOL_DESTROYS),
	ROUTE("file_list", "List a directory", "Lists what is in a directory.",
	      "POST /v1/file/list", TOOL_READS),
	ROUTE("file_search", "Search a file", "Finds the lines of a file that a regex fits.",
	      "POST /v1/file/search", TOOL_READS),
	ROUTE("file_replace", "Replace text", "Replaces all occurrences of a text in a file.",
	      "POST /v1/file/replace", TOOL_DESTROYS),
	ROUTE("file_find", "Find files", "Finds files by their names.", "POST /v1/file/find",
	      TOOL_READS),
	ROUTE("file_grep", "Search a tree", "Finds lines that a regex fits, in many files.",
	      "POST /v1/file/grep", TOOL_READS),
	ROUTE("file_glob", "Match files", "Finds files by a pattern such as **/*.c.",
	      "POST /v1/file/glob", TOOL_READS),
};
const struct tool_table file_tools = { "file", file_rows, COUNT(file_rows), .hidden = true };

static const struct tool shell_rows[] = {
	{ "shell_exec", "Run in a terminal", "Runs a command in a terminal session that lasts.",
	  "POST /v1/shell/exec", .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_DESTROYS | TOOL_OUTSIDE,
	  .aliases = "terminal_execute" },
	{ "shell_view", "Look at a terminal", "Shows a terminal session.", "POST /v1/shell/view",
	  .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_READS, .aliases = "terminal_view" },
	{ "shell_wait", "Wait for a terminal", "Waits until a session's command has ended.",
	  "POST /v1/shell/wait", .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_READS },
	{ "shell_write", "Type into a terminal", "Types into a terminal session.",
	  "POST /v1/shell/write", .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_DESTROYS,
	  .aliases = "terminal_write" },
	{ "shell_kill", "End what runs in a terminal", "Ends the program of a terminal session.",
	  "POST /v1/shell/kill", .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_DESTROYS,
	  .aliases = "terminal_kill" },
	{ "shell_session", "Open a terminal", "Makes a terminal session, or finds one.",
	  "POST /v1/shell/sessions/create", .flags = TOOL_ALIAS | TOOL_SLOW,
	  .aliases = "terminal_session" },
	ROUTE("jupyter_execute", "Run in a notebook kernel", "Runs code in a Jupyter kernel.",
	      "POST /v1/jupyter/execute", TOOL_DESTROYS | TOOL_OUTSIDE),
};
const struct tool_table shell_tools = { "shell", shell_rows, COUNT(shell_rows), .hidden = true };

static const struct tool markitdown_rows[] = {
	{ "markitdown_convert_to_markdown", "Convert to Markdown",
	  "Reads a document or page (http:, https:, file: or data: URI) and returns it as Markdown.",
	  "POST /v1/util/convert_to_markdown",
	  .flags = TOOL_ALIAS | TOOL_SLOW | TOOL_READS | TOOL_OUTSIDE,
	  .aliases = "markitdown_convert,markitdown_extract,convert_to_markdown" },
};
const struct tool_table markitdown_tools = { "markitdown", markitdown_rows,
					     COUNT(markitdown_rows) };
