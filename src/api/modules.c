#include "api/modules.h"

#include "api/routes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "browser/chromium.h"
#include "browser/tab_record.h"
#include "code/kernels.h"
#include "code/nodejs_sessions.h"
#include "config/config.h"
#include "desktop/display.h"
#include "desktop/record.h"
#include "document/documents.h"
#include "editor/editor.h"
#include "fs/watchers.h"
#include "hook/hooks.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "net/server.h"
#include "notebook/jupyterlab.h"
#include "observe/observation.h"
#include "outbound/outbound.h"
#include "proc/child.h"
#include "proc/pump.h"
#include "service/service.h"
#include "shell/bash_sessions.h"
#include "shell/shells.h"

static void start_mcp(struct server *server)
{
	mcp_setup(server, sandbox_text);
}

static void start_pump(struct server *server)
{
	struct err err;
	(void)server;
	if (pump_start(&err) < 0)
		log_warn("%s", err.msg);
}

const struct module modules[] = {
	{ .start = start_pump },
	{ .stop = child_end_all },
	{ .end = hooks_end },
	{ .start = outbound_setup, .end = outbound_end },
	{ .start = observation_setup, .stop = observation_ask_end, .end = observation_end },
	{ .start = document_setup },
	{ .stop = record_ask_end, .end = record_end },
	{ .stop = tab_records_ask_end, .end = tab_records_end },
	{ .start = display_setup },
	{ .start = chromium_setup },
	{ .start = editor_setup },
	{ .start = jupyterlab_setup },
	{ .sessions = &mcp_sessions, .start = start_mcp, .end = mcp_end },
	{ .stop = service_stop_all, .end = service_end_all, .metrics = metrics_services },
	{ .end = display_end },
	{ .sessions = &shell_sessions },
	{ .sessions = &bash_sessions },
	{ .sessions = &kernels_sessions, .start = kernels_start, .end = kernels_end },
	{ .sessions = &nodejs_sessions },
	{ .sessions = &watchers_sessions },
};
const size_t modules_count = COUNT(modules);

void modules_start(struct server *server)
{
	const struct config *config = server->config;
	for (size_t i = 0; i < modules_count; i++) {
		const struct module *module = &modules[i];
		if (module->sessions)
			sessions_limit(module->sessions, config->max_sessions, config->session_ms);
		if (module->start)
			module->start(server);
	}
}

void modules_stop(void)
{
	for (size_t i = 0; i < modules_count; i++)
		if (modules[i].stop)
			modules[i].stop();
}

void modules_end(void)
{
	for (size_t i = 0; i < modules_count; i++) {
		if (modules[i].sessions)
			sessions_close_all(modules[i].sessions);
		if (modules[i].end)
			modules[i].end();
	}
}
