/* revision.h - the published revisions of the Model Context Protocol. */
#pragma once

enum mcp_revision {
	MCP_2024_11_05, /* HTTP with a separate event stream */
	MCP_2025_03_26, /* Streamable HTTP; batches */
	MCP_2025_06_18, /* no batches; structured results */
	MCP_2025_11_25, /* event streams that begin with an empty event */
	MCP_2026_07_28, /* no sessions: each request says all there is to know */
	MCP_REVISIONS,
	MCP_NEWEST_SESSION = MCP_2025_11_25, /* the newest that begins with "initialize" */
};

extern const char *const mcp_revision_names[MCP_REVISIONS];

/* The revision of that name, or -1. NULL is no revision. */
int mcp_revision_find(const char *name);
