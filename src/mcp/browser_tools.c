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
	{ "sandbox_browser_navigate", "Go to a page",
	  "Opens an address in the active tab, waits until it is loaded, and returns where that led, the title, "
	  "and the elements that can be clicked or filled in, as lines [index]<tag>text</tag>. Begin "
	  "here; read the page with sandbox_browser_get_markdown, look at it with "
	  "sandbox_browser_screenshot.",
	  "POST /v1/browser/page/navigate", &navigate_in, navigate_tool, NULL,
	  TOOL_OUTSIDE | TOOL_SLOW, "browser_navigate,navigate,browser_goto,goto,visit" },
	{ "sandbox_browser_go_back", "Go back",
	  "Goes back in the active tab's history and waits for that page.",
	  "POST /v1/browser/page/back", NULL, go_back_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_go_back,browser_back,browser_navigate_back" },
	{ "sandbox_browser_go_forward", "Go forward",
	  "Goes forward in the active tab's history, after having gone back, and waits for that page.",
	  "POST /v1/browser/page/forward", NULL, go_forward_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_go_forward,browser_forward,browser_navigate_forward" },
	{ "sandbox_browser_reload", "Reload the page",
	  "Loads the page of the active tab again and waits for it. What was typed there is lost.",
	  "POST /v1/browser/page/reload", NULL, reload_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_reload,browser_refresh" },
	{ "sandbox_browser_get_clickable_elements", "List elements",
	  "Lists what can be clicked or filled in on the page, as lines [index]<tag>text</tag>: the "
	  "indexes are for the other tools. List again after the page has changed.",
	  "GET /v1/browser/page/elements", NULL, get_elements_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_get_clickable_elements,browser_elements,browser_get_elements" },
	{ "sandbox_browser_element_click", "Click an element",
	  "Clicks an element of the page, by its index or a selector, or a point of the page's view. It "
	  "waits until the element is there, visible and not covered; an error says what is in the way.",
	  "POST /v1/browser/page/click", &click_in, click_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_click,browser_element_click,click" },
	{ "sandbox_browser_element_hover", "Hover over an element",
	  "Moves the mouse over an element of the page, by its index or a selector, or over a point of the "
	  "page's view: for menus and hints that open then.",
	  "POST /v1/browser/page/hover", &hover_in, hover_tool, NULL, TOOL_SLOW,
	  "browser_hover,browser_element_hover,hover" },
	{ "sandbox_browser_form_input_fill", "Fill in a field",
	  "Puts a value into a text field, text area or editable element, by its index or a selector, in "
	  "place of what it held. Submit the form by its button, or with sandbox_browser_press_key Enter.",
	  "POST /v1/browser/page/fill", &fill_in, fill_tool, NULL,
	  TOOL_OUTSIDE | TOOL_REPEATABLE | TOOL_SLOW, "browser_form_input_fill,browser_fill,fill" },
	{ "sandbox_browser_element_select", "Choose from a list",
	  "Chooses an option of a drop-down list (select element), which is named by its index or a selector, "
	  "by the option's value or what is written on it.",
	  "POST /v1/browser/page/fill_form", &select_in, select_tool, NULL,
	  TOOL_OUTSIDE | TOOL_REPEATABLE | TOOL_SLOW,
	  "browser_select,browser_element_select,browser_select_option,select" },
	{ "sandbox_browser_fill_form", "Fill in several fields",
	  "Fills in several fields of a form in one call, each by its index or a selector, as its kind wants: "
	  "text, the option of a list, true or false for a checkbox, paths for a file field.",
	  "POST /v1/browser/page/fill_form", .flags = TOOL_OUTSIDE | TOOL_REPEATABLE | TOOL_SLOW,
	  .aliases = "browser_fill_form" },
	{ "sandbox_browser_upload_file", "Choose files to upload",
	  "Chooses files of the sandbox for a file field of the page, by its index or a selector. Submit the "
	  "form afterwards.",
	  "POST /v1/browser/page/fill_form", &upload_in, upload_tool, NULL,
	  TOOL_OUTSIDE | TOOL_REPEATABLE | TOOL_SLOW, "browser_upload_file,browser_file_upload" },
	{ "sandbox_browser_type", "Type text",
	  "Types text into the focused element; or, with an index or a selector, into that element in "
	  "place of what it held. submit presses Enter afterwards.",
	  "POST /v1/browser/page/type", &type_in, type_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_type,browser_type_text,browser_input" },
	{ "sandbox_browser_press_key", "Press a key",
	  "Presses a key in the page, where the focus is: Enter, Tab, Escape, ArrowDown, PageDown, a letter; "
	  "or several together, such as Control+A.",
	  "POST /v1/browser/page/press_key", &press_in, press_key_tool, NULL,
	  TOOL_OUTSIDE | TOOL_SLOW, "browser_press_key,browser_key_press,press_key" },
	{ "sandbox_browser_scroll", "Scroll the page",
	  "Scrolls the page by so many pixels, down or, if negative, up; without an amount to its end.",
	  "POST /v1/browser/page/scroll", &scroll_in, scroll_tool, NULL, TOOL_SLOW,
	  "browser_scroll,scroll" },
	{ "sandbox_browser_get_markdown", "Read the page",
	  "Returns the readable content of the page as Markdown: headings, links, lists, tables and code, "
	  "without navigation and advertisements. The best way to read an article or documentation; long "
	  "pages come in parts.",
	  "GET /v1/browser/page/markdown", &page_part_in, get_markdown_tool, NULL,
	  TOOL_READS | TOOL_SLOW, "browser_get_markdown,browser_markdown" },
	{ "sandbox_browser_get_text", "Read the page's text",
	  "Returns all text that is visible on the page, with navigation and all. Use "
	  "sandbox_browser_get_markdown for its main content.",
	  "GET /v1/browser/page/text", &page_part_in, get_text_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_get_text,browser_text,browser_get_content" },
	{ "sandbox_browser_get_html", "Read the page's HTML",
	  "Returns the HTML of the page as it is now, in parts where it is long. It is large: prefer "
	  "sandbox_browser_get_markdown, or sandbox_browser_extract with a selector.",
	  "GET /v1/browser/page/html", &page_part_in, get_html_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_get_html,browser_html" },
	{ "sandbox_browser_extract", "Read a part of the page",
	  "Returns the text or the HTML of the elements that match a CSS selector, or of the whole page "
	  "as Markdown, text or HTML.",
	  "POST /v1/browser/page/evaluate", &extract_in, extract_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_extract,browser_extract_content" },
	{ "sandbox_browser_find_text", "Find text on the page",
	  "Finds every place where the page shows a text, also where it is out of view, with what is "
	  "around it and its position.",
	  "POST /v1/browser/page/find_text", &find_text_in, find_text_tool, NULL,
	  TOOL_READS | TOOL_SLOW, "browser_find_text" },
	{ "sandbox_browser_pdf_save", "Save the page as PDF",
	  "Prints the page to a PDF file in the sandbox, and says where it is.",
	  "GET /v1/browser/page/pdf", &pdf_in, pdf_tool, NULL, TOOL_DESTROYS | TOOL_SLOW,
	  "browser_pdf_save,browser_pdf" },
	{ "sandbox_browser_snapshot", "Read the page as a tree",
	  "Returns the page as assistive technology has it: roles, names, states and texts as a tree of "
	  "lines, frames included, with refs: [ref=e7] can be clicked by the selector aria-ref=e7.",
	  "GET /v1/browser/page/snapshot", &snapshot_in, snapshot_tool, NULL,
	  TOOL_READS | TOOL_SLOW, "browser_snapshot,browser_accessibility_snapshot" },
	{ "sandbox_browser_wait", "Wait for the page",
	  "Waits until an element or a text appears, the address changes, JavaScript becomes true, a "
	  "response or download has come, the network is idle, or some seconds have passed. Clicks and "
	  "navigation wait on their own: use it for what a page does later.",
	  "POST /v1/browser/page/wait", &wait_in, wait_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_wait,browser_wait_for" },
	{ "sandbox_browser_read_links", "List links",
	  "Lists the links of the page with their text and where they lead.",
	  "POST /v1/browser/page/evaluate", NULL, read_links_tool, &link_list_out,
	  TOOL_READS | TOOL_SLOW, "browser_read_links,browser_get_links,browser_links" },
	{ "sandbox_browser_evaluate", "Run JavaScript in the page",
	  "Runs JavaScript in the page, as its console does, and returns the value as JSON: an "
	  "expression, statements, or a function, which is called. Promises are awaited. Errors come with "
	  "their stack.",
	  "POST /v1/browser/page/evaluate", &evaluate_in, evaluate_tool, NULL,
	  TOOL_DESTROYS | TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_evaluate,evaluate,browser_execute_script,browser_eval" },
	{ "sandbox_browser_handle_dialog", "Answer a dialog",
	  "Accepts or dismisses the page's open alert, confirm or prompt. While one is open the page "
	  "stands still, and other tools say so.",
	  "POST /v1/browser/page/dialog", &dialog_in, dialog_tool, NULL, TOOL_OUTSIDE | TOOL_SLOW,
	  "browser_handle_dialog,browser_dialog" },
	{ "sandbox_browser_console_messages", "Read the console",
	  "Lists what the page wrote to its console, its errors that nobody caught, and what the browser "
	  "says of it, the oldest first: to see why a page does not work.",
	  "GET /v1/browser/page/console", &console_in, console_tool, NULL, TOOL_READS | TOOL_SLOW,
	  "browser_console_messages,browser_get_console,browser_console_logs" },
	{ "sandbox_browser_network_requests", "List requests",
	  "Lists what the page has asked of the network, the oldest first: method, status or failure, URL, "
	  "kind, size and time. To see why a page does not work, or which API it calls.",
	  "GET /v1/browser/network/requests", &requests_in, requests_tool, NULL,
	  TOOL_READS | TOOL_SLOW, "browser_network_requests,browser_get_requests" },
	{ "sandbox_browser_get_cookies", "List cookies",
	  "Lists the browser's cookies, or those that URLs (separated by commas) would get, with values, "
	  "domains and expiry.",
	  "GET /v1/browser/cookies", .flags = TOOL_READS | TOOL_SLOW,
	  .aliases = "browser_get_cookies,browser_cookies" },
	{ "sandbox_browser_screenshot", "Look at the page",
	  "Takes a picture of the page as it is in view, of all of it (fullPage), or of one element. "
	  "Coordinates in a picture of the view are those of sandbox_browser_element_click.",
	  "GET /v1/browser/page/screenshot", &page_picture_in, page_picture_tool, NULL,
	  TOOL_READS | TOOL_SLOW,
	  "browser_screenshot,browser_take_screenshot,page_screenshot,screenshot" },
	{ "sandbox_browser_vision_screen_capture", "Look at the view",
	  "Takes a picture of the page's view to find coordinates in, for "
	  "sandbox_browser_vision_screen_click.",
	  "GET /v1/browser/page/screenshot", NULL, view_picture_tool, NULL,
	  TOOL_READS | TOOL_SLOW | TOOL_ALIAS, "browser_vision_screen_capture" },
	{ "sandbox_browser_vision_screen_click", "Click in the view",
	  "Clicks a point of the page's view, as seen in the picture of "
	  "sandbox_browser_vision_screen_capture.",
	  "POST /v1/browser/page/click", &view_click_in, view_click_tool, NULL,
	  TOOL_OUTSIDE | TOOL_SLOW | TOOL_ALIAS, "browser_vision_screen_click" },
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
	  "other program. Coordinates in it are those of sandbox_browser_gui_execute_action, unless the text "
	  "says that a large screen was made smaller. To see the page alone use "
	  "sandbox_browser_screenshot.",
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
