#include "egress/web.h"

#include <string.h>
#include <strings.h>

static int begin(llhttp_t *parser)
{
	struct web *web = parser->data;
	web->hosts = web->host_len = web->field_len = web->url_len = 0;
	web->in_value = false;
	return web->upgrade ? -1 : 0;
}

/* A name may come in pieces; it is compared as far as it is there. */
static int header_field(llhttp_t *parser, const char *at, size_t len)
{
	static const char host[] = "host";
	struct web *web = parser->data;
	if (web->in_value || !web->field_len)
		web->field_len = 0, web->is_host = true, web->in_value = false;
	web->is_host = web->is_host && web->field_len + len < sizeof host &&
		       !strncasecmp(host + web->field_len, at, len);
	web->field_len += len;
	return 0;
}

static int header_value(llhttp_t *parser, const char *at, size_t len)
{
	struct web *web = parser->data;
	bool first = !web->in_value;
	web->in_value = true;
	if (!web->is_host || web->field_len != 4)
		return 0;
	web->hosts += first;
	if (len > sizeof web->host - 1 - web->host_len)
		return -1;
	memcpy(web->host + web->host_len, at, len);
	web->host_len += len;
	return 0;
}

static int headers_complete(llhttp_t *parser)
{
	struct web *web = parser->data;
	web->host[web->host_len] = 0;
	char *port = strrchr(web->host, ':');
	if (port && !strchr(port, ']'))
		*port = 0;
	size_t len = strlen(web->host);
	if (len && web->host[len - 1] == '.')
		web->host[len - 1] = 0;
	if (web->hosts != 1 || strcasecmp(web->host, web->wanted) != 0 ||
	    parser->method == HTTP_CONNECT)
		return -1;
	web->upgrade = parser->upgrade;
	return 0;
}

/* A target with a host in it is for a proxy. */
static int url(llhttp_t *parser, const char *at, size_t len)
{
	struct web *web = parser->data;
	bool first = !web->url_len;
	web->url_len += len;
	return first && len && *at != '/' && *at != '*' ? -1 : 0;
}

void web_init(struct web *web, const char *wanted)
{
	memset(web, 0, sizeof *web);
	llhttp_settings_init(&web->settings);
	web->settings.on_message_begin = begin;
	web->settings.on_url = url;
	web->settings.on_header_field = header_field;
	web->settings.on_header_value = header_value;
	web->settings.on_headers_complete = headers_complete;
	llhttp_init(&web->parser, HTTP_REQUEST, &web->settings);
	web->parser.data = web;
	web->wanted = wanted;
}

int web_feed(struct web *web, const char *data, size_t len)
{
	llhttp_errno_t result = llhttp_execute(&web->parser, data, len);
	if (result == HPE_PAUSED_UPGRADE)
		return web->upgrade ? 0 : -1;
	return result == HPE_OK ? 0 : -1;
}
