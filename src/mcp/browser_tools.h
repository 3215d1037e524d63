/* browser_tools.h - what the tools of the browser do beyond calling their route: the table that has them
 * is browser_tools.c. */
#pragma once
#include "base/desc.h"
#include "mcp/tool.h"

/* Sentences that a tool answers with, and the hint of the route, if it gave one. */
int browser_said(struct tool_use *use, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Calls a route for a picture: `what` it is and its size as text, then the picture. One that is large as a
 * PNG comes as a JPEG. Takes args over. */
int browser_picture(struct tool_use *use, const char *route, json_t *args, const char *what,
		    struct err *err);

/* browser_tab_tools.c */
extern const struct schema new_tab_in, switch_tab_in, close_tab_in, tab_list_out, download_list_out;
tool_call new_tab_tool, switch_tab_tool, close_tab_tool, tab_list_tool, download_list_tool,
	close_tabs_tool;

/* browser_screen_tools.c */
extern const struct schema screen_picture_in, screen_action_in;
tool_call screen_picture_tool, screen_action_tool;
