/* config.h - the options of a box server, from one table. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "net/server.h"

struct err;

/* Where the browser keeps its profile unless AIO_BROWSER_PROFILE says otherwise: below the user's home. */
#define BROWSER_PROFILE ".config/aio-browser"

/* What coding assistants use unless something else is said: a model of ByteDance's Ark. */
#define ARK_URL           "https://ark.cn-beijing.volces.com/api/v3"
#define CODEX_MODEL       "deepseek-v4-flash-260425"
#define OPENCODE_PROVIDER "ark"

struct config {
	struct server_options net;
	char home[4096]; /* of net */
	const char *workspace, *user, *time_zone;
	int64_t public_port;
	int64_t local_port;
	const char *local_socket;
	const char *network; /* see reach.h */
	int64_t max_sessions, max_history, session_ms;
	int64_t max_watch_dirs;
	int64_t max_kernels, kernel_idle_ms, kernel_output;
	const char *kernel_preload, *python_version;
	bool kernel_ready;
	int64_t document_ms, document_idle_ms, document_memory, max_document;
	int64_t display, display_width, display_height;
	int64_t service_idle_ms;
	bool editor_ready;
	const char *codex_key, *ark_key, *openai_key, *codex_model, *codex_url, *codex_config,
		*codex_catalog;
	const char *opencode_key, *opencode_model, *opencode_provider, *opencode_url, *opencode_npm,
		*opencode_json;
	bool browser_ready, browser_sandbox;
	int64_t browser_port;
	const char *browser_home, *browser_lang, *browser_ui_lang, *browser_agent, *browser_args,
		*browser_profile, *browser_dialogs;
	int64_t proxy_port;
	const char *proxy_server, *proxy_exclude, *proxy_include, *proxy_map, *browser_dns;
	const char *skills;
	const char *hook_init, *hook_pre_services, *hook_post_ready, *shutdown_hooks, *wait_ports;
	bool hooks_strict;
	int64_t hook_ms, wait_ms, shutdown_ms;
	const char *mcp_servers;
	int64_t mcp_idle_ms;
	int64_t log_level, log_format;
	bool unisolated; /* not an option: 'aio mcp' without a box, as whoever started it */
};

extern const struct opt_table config_table;

/* Fills config from the environment and argv[1…], with what defaults need looked up. -1 with one
 * line in err. Strings live as long as the process. */
int config_load(struct config *config, int argc, char **argv, struct err *err);

/* How long something may be idle that has a time of its own: --service-idle where that is shorter. */
static inline int64_t config_idle(const struct config *config, int64_t own_ms)
{
	return config->service_idle_ms && config->service_idle_ms < own_ms ? config->service_idle_ms
									   : own_ms;
}
