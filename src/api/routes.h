/* routes.h - every group of routes a box server has. */
#pragma once
#include "net/auth.h"
#include "net/route.h"

struct err;
struct jw;
struct server;

extern const struct route_group sandbox_group, sandbox_events_group, sandbox_hooks_group,
	sandbox_observe_group, shell_group, shell_sessions_group, shell_ws_group, bash_group,
	auth_group, file_read_group, file_write_group, file_transfer_group, file_list_group,
	file_editor_group, file_find_group, file_search_group, file_watch_group, util_group,
	skills_group, jupyter_group, code_group, contexts_group, nodejs_group, mcp_group,
	file_watch_wait_group, mcp_servers_group, health_group, openapi_group, llms_group,
	metrics_group, page_group, bash_ws_group, preview_group, sign_in_group, browser_group,
	browser_tabs_group, cdp_group, display_record_group, browser_screen_group,
	browser_actions_group, browser_downloads_group, browser_page_markdown_group,
	browser_page_screenshot_group, browser_page_pdf_group, browser_page_find_group,
	browser_captcha_group, vnc_group, browser_page_snapshot_group, browser_page_record_group,
	editor_group, proxy_group;

/* JupyterLab, and its kernels. */
extern const struct route_group notebook_group, notebook_kernels_group, notebook_sessions_group,
	notebook_channels_group;

/* The page's own. */
extern const struct route_group browser_page_group, browser_page_evaluate_group,
	browser_page_dialog_group, browser_page_console_group, browser_page_wait_group;

/* Network, cookies and state of the browser. */
extern const struct route_group browser_requests_group, browser_network_group,
	browser_cookies_group;
extern const struct route_group browser_page_click_group, browser_page_keys_group,
	browser_page_form_group, browser_page_scroll_group, browser_page_elements_group;

/* A new ticket, as callers are told of it: auth.c's, and the host's in its place. */
struct ticket {
	const char *ticket;
	int64_t expires_in;
};
extern const struct field ticket_data;

/* The scopes that one may have, by name. */
extern const char *const ticket_scopes[];
enum auth_scope ticket_scope(const char *name);

/* The product's pages, which are files below its home. */
struct page_file {
	const char *path;
	const char *policy; /* what it may load */
};
enum page {
	PAGE_DOCS,
	PAGE_TERMINAL,
	PAGE_VNC,
	PAGE_ICON,
	PAGE_SIGN_IN,
	PAGE_OWN_NAME,
	PAGE_PREVIEW
};
extern const struct page_file page_files[];

/* All of them; ends with NULL. */
extern const struct route_group *const api_groups[];

/* The OpenAPI document of some groups. */
void openapi_write(const struct route_group *const *groups, struct jw *jw);

/* A manual for agents of some groups, as plain text. */
void llms_write(const struct route_group *const *groups, struct buf *to);

/* Appends what GET /v1/sandbox says in `data`. */
int sandbox_text(struct server *server, struct buf *to, struct err *err);
