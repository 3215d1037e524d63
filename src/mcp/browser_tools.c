/* The tools of the browser, under the names that AIO Sandbox lists (sandbox_browser_…), and those of its
 * server "browser" (browser_…), which are their first aliases. */
#include "mcp/browser_tools.h"

#include "base/own.h"
#include "browser/chromium.h"
#include "mcp/tools_table.h"

static const struct tool rows[] = {
	{ "sandbox_browser_get_info", "Describe the browser",
	  "Tells where the browser's DevTools protocol is (cdp_url, for Playwright or Puppeteer programs "
	  "that you write), where people can watch it (vnc_url), and the sizes of the screen and of the "
	  "page. Starts the browser if need be.",
	  "GET /v1/browser/info", .flags = TOOL_READS | TOOL_SLOW,
	  .aliases = "browser_get_info,get_browser_info" },
	{ "sandbox_browser_tab_list", "List tabs",
	  "Lists the open tabs with their index, title and URL, and says which one is active: that is the "
	  "one that the other tools work on.",
	  "GET /v1/browser/tabs", NULL, tab_list_tool, &tab_list_out, TOOL_READS | TOOL_SLOW,
	  "browser_tab_list,browser_tabs" },
	{ "sandbox_browser_new_tab", "Open a tab",
	  "Opens a tab with a URL, or a blank one, and makes it the active one. It does not wait for the "
	  "page: sandbox_browser_navigate does.",
	  "POST /v1/browser/tabs", &new_tab_in, new_tab_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_new_tab,browser_tab_new" },
	{ "sandbox_browser_switch_tab", "Switch to a tab",
	  "Brings a tab to the front by its index: from then on the other tools work on it.",
	  "PUT /v1/browser/tabs/{index}/activate", &switch_tab_in, switch_tab_tool, NULL,
	  TOOL_REPEATABLE | TOOL_SLOW, "browser_switch_tab,browser_tab_select" },
	{ "sandbox_browser_close_tab", "Close a tab",
	  "Closes the active tab, or the one of the given index. After the last one a blank tab is left. "
	  "The indexes of the tabs after it change.",
	  "DELETE /v1/browser/tabs/{index}", &close_tab_in, close_tab_tool, NULL,
	  TOOL_DESTROYS | TOOL_SLOW, "browser_close_tab,browser_tab_close" },
	{ "sandbox_browser_close", "Close all pages",
	  "Closes all tabs when you are done with the browser. Cookies and logins stay; a blank tab is "
	  "left for the next use.",
	  "DELETE /v1/browser/tabs/{index}", NULL, close_tabs_tool, NULL,
	  TOOL_DESTROYS | TOOL_REPEATABLE | TOOL_SLOW, "browser_close" },
	{ "sandbox_browser_get_download_list", "List downloads",
	  "Lists what the browser has downloaded or is downloading, the newest first, with the path of "
	  "each file: other tools can read it there once its state is completed.",
	  "GET /v1/browser/downloads", NULL, download_list_tool, &download_list_out,
	  TOOL_READS | TOOL_SLOW, "browser_get_download_list,browser_downloads" },
	{ "sandbox_browser_gui_screenshot", "Look at the screen",
	  "Takes a picture of the whole desktop: the browser with its tabs and its own windows, and every "
	  "other program. Coordinates in it are those of sandbox_browser_gui_execute_action. To see the "
	  "page alone use sandbox_browser_screenshot.",
	  "GET /v1/browser/screenshot", &screen_picture_in, screen_picture_tool, NULL,
	  TOOL_READS | TOOL_SLOW,
	  "browser_gui_screenshot,gui_screenshot,take_screenshot,computer_screenshot" },
	{ "sandbox_browser_gui_execute_action", "Use mouse and keyboard",
	  "Does one thing with the mouse or keyboard of the desktop, as a person would, in whatever window "
	  "is there: for file dialogs, canvas, native programs, and where tools for the page do not "
	  "reach. Look with sandbox_browser_gui_screenshot before and after. For buttons, links and "
	  "fields of a page prefer the tools that take an index or a selector.",
	  "POST /v1/browser/actions", &screen_action_in, screen_action_tool, NULL,
	  TOOL_DESTROYS | TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_gui_execute_action,browser_execute_action,gui_execute_action" },
};
const struct tool_table browser_tools = { "sandbox", rows, COUNT(rows),
					  .is_usable = chromium_is_usable };
const struct tool_table browser_server_tools = { "browser", rows, COUNT(rows), .by_alias = true,
						 .is_usable = chromium_is_usable };
