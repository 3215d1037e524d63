/* Anything that has a URI as Markdown. */
#include "api/routes.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "document/documents.h"
#include "net/call.h"

struct convert {
	struct text uri;
};
static const struct field convert_fields[] = {
	TEXT(convert, uri, REQUIRED,
	     "The URI of the resource to convert: http://, https://, file:/// or data:."),
};
static const struct schema convert_schema =
	SCHEMA(convert, "UtilConvertToMarkdownRequest", convert_fields);
static const struct field convert_data = { .type = T_TEXT, .help = "The resource as Markdown." };

/* What is wrong with the resource is a handled failure; with the URI, or with us, an error. */
static bool is_handled(int code)
{
	return code != ERR_BAD_REQUEST && code != ERR_GONE && code != ERR_UNAVAILABLE &&
	       code != ERR_LIMIT && err_status(code) < 500;
}

static int convert(struct call *call, const void *in, struct err *err)
{
	const struct convert *request = in;
	auto_buf struct buf markdown = BUF(DOCUMENT_TEXT_MAX + 65536);
	struct text text = { "", 0 };
	if (document_convert(call, request->uri.data, request->uri.len, &markdown, err) < 0) {
		if (!is_handled(err->code))
			return -1;
		call->failed = true;
		call->message = arena_strdup(call->arena, err->msg);
		return call_reply(call, NULL, err);
	}
	if (markdown.len)
		text = (struct text){ markdown.data, markdown.len };
	return call_reply(call, &text, err);
}

static const struct route routes[] = {
	{ "POST", "/v1/util/convert_to_markdown", convert, &convert_schema, &convert_data,
	  "Convert a resource to Markdown",
	  "Reads HTML, PDF, Word, spreadsheets, slides, CSV, EPUB, notebooks, feeds, plain text, the "
	  "metadata of pictures, and archives of those. A resource that cannot be fetched or converted "
	  "is answered with success false and the reason in message." },
};
const struct route_group util_group = { "util", "Converting things.", routes, COUNT(routes) };
