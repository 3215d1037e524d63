#include "mcp/mcp.h"

#include "mcp/exchange.h"
#include "mcp/hub.h"
#include "mcp/session.h"
#include "mcp/tool.h"
#include "net/server.h"

void mcp_setup(struct server *server, resource_text *context)
{
	resource_context = context;
	hub_setup(server);
}

void mcp_end(void)
{
	exchange_end_all();
	hub_end();
	tool_forget_all();
}
