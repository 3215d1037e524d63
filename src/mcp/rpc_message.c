#include "mcp/rpc_message.h"

#include <string.h>

#include "mcp/exchange.h"
#include "mcp/revision.h"

static const char version_key[] = "io.modelcontextprotocol/protocolVersion";
static const char capabilities_key[] = "io.modelcontextprotocol/clientCapabilities";

const char *rpc_message_why_invalid(const json_t *message)
{
	const json_t *version = json_object_get(message, "jsonrpc");
	const json_t *id = json_object_get(message, "id");
	const json_t *params = json_object_get(message, "params");
	if (!json_is_object(message))
		return "a message must be an object";
	if (version && (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0))
		return "jsonrpc must be \"2.0\"";
	if (id && !rpc_message_id(id) && !json_is_null(id))
		return "id must be a string or a number";
	if (json_object_get(message, "result") || json_object_get(message, "error"))
		return NULL;
	if (!json_is_string(json_object_get(message, "method")))
		return "method is missing";
	if (params && !json_is_object(params) && !json_is_null(params))
		return "params must be an object";
	return NULL;
}

const json_t *rpc_message_id(const json_t *id)
{
	return json_is_string(id) || json_is_number(id) ? id : NULL;
}

static const json_t *meta_of(const json_t *message)
{
	return json_object_get(json_object_get(message, "params"), "_meta");
}

bool rpc_message_is_modern(const json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	return method && (json_object_get(meta_of(message), version_key) ||
			  !strcmp(method, "server/discover"));
}

int rpc_message_check_fields(const json_t *message, struct rpc_message_problem *ret)
{
	const json_t *meta = meta_of(message);
	*ret = (struct rpc_message_problem){ .code = RPC_PARAMS };
	if (!json_is_string(json_object_get(meta, version_key)))
		ret->text = "params._meta must have io.modelcontextprotocol/protocolVersion";
	else if (!json_is_object(json_object_get(meta, capabilities_key)))
		ret->text = "params._meta must have io.modelcontextprotocol/clientCapabilities";
	return ret->text ? -1 : 0;
}

int rpc_message_check_version(const json_t *message, struct rpc_message_problem *ret)
{
	const char *spoken = mcp_revision_names[MCP_2026_07_28];
	const char *version = json_string_value(json_object_get(meta_of(message), version_key));
	if (version && !strcmp(version, spoken))
		return 0;
	*ret = (struct rpc_message_problem){ RPC_REVISION, "Unsupported protocol version",
					     json_pack("{s:[s],s:s}", "supported", spoken,
						       "requested", version ? version : "") };
	return -1;
}

int rpc_message_check_meta(const json_t *message, struct rpc_message_problem *ret)
{
	return rpc_message_check_fields(message, ret) < 0 ? -1
							  : rpc_message_check_version(message, ret);
}
