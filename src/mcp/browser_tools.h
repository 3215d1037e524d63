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

/* A text of an object; "" where there is none. */
const char *browser_text(const json_t *object, const char *key);

/* browser_tab_tools.c */
extern const struct schema new_tab_in, switch_tab_in, close_tab_in, tab_list_out, download_list_out;
tool_call new_tab_tool, switch_tab_tool, close_tab_tool, tab_list_tool, download_list_tool,
	close_tabs_tool;

/* browser_screen_tools.c */
extern const struct schema screen_picture_in, screen_action_in, page_picture_in, view_click_in;
tool_call screen_picture_tool, screen_action_tool, page_picture_tool, view_picture_tool,
	view_click_tool;

/* browser_page_tools.c */
extern const struct schema navigate_in, page_part_in, extract_in, link_list_out, evaluate_in,
	find_text_in, pdf_in, snapshot_in, wait_in;
tool_call navigate_tool, go_back_tool, go_forward_tool, reload_tool, get_text_tool, get_html_tool,
	get_markdown_tool, extract_tool, read_links_tool, evaluate_tool, find_text_tool, pdf_tool,
	snapshot_tool, wait_tool;

/* Some of a text (in characters), and how to get the rest. */
void browser_put_part(struct tool_use *use, const char *text, size_t len, int64_t offset,
		      int64_t most);

/* browser_act_tools.c */
extern const struct schema click_in, hover_in, fill_in, type_in, press_in, scroll_in, select_in,
	upload_in, dialog_in;
tool_call get_elements_tool, click_tool, hover_tool, fill_tool, type_tool, press_key_tool,
	scroll_tool, select_tool, upload_tool, dialog_tool;

/* Adds the elements that can be clicked or filled in, if the page can tell. */
void browser_put_elements(struct tool_use *use, struct err *err);

/* browser_log_tools.c */
extern const struct schema requests_in, console_in;
tool_call requests_tool, console_tool;
