/* A message of JSON-RPC: what passes the checks has what the server relies on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "mcp/rpc_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *text = xmalloc(len + 1);
	memcpy(text, data, len);
	text[len] = 0;
	json_t *message = json_parse(text, len, NULL);
	struct rpc_message_problem problem;
	if (message && !rpc_message_why_invalid(message)) {
		const json_t *params = json_object_get(message, "params");
		bool answer = json_object_get(message, "result") ||
			      json_object_get(message, "error");
		if (!json_is_object(message) ||
		    (!answer && !json_is_string(json_object_get(message, "method"))) ||
		    (!answer && params && !json_is_object(params) && !json_is_null(params)))
			abort();
		if (rpc_message_is_modern(message) &&
		    rpc_message_check_meta(message, &problem) < 0) {
			if (!problem.text || !problem.code)
				abort();
			json_decref(problem.data);
		}
	}
	json_decref(message);
	return 0;
}
