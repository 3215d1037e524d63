#include "egress/web.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int begin(llhttp_t *parser)
{
	struct web *web = parser->data;
	web->field.len = web->host.len = web->protocol.len = web->url_len = web->hosts = 0;
	web->in_value = false;
	web->requests++;
	return 0;
}

/* What does not fit is like nothing that is looked for. */
static void add(struct web_text *to, const char *at, size_t len)
{
	size_t room = sizeof to->text - 1 - to->len;
	memcpy(to->text + to->len, at, len < room ? len : room);
	to->len += len < room ? len : room;
	to->text[to->len] = 0;
}

static bool is(const struct web_text *text, const char *what)
{
	return text->len == strlen(what) && !strcasecmp(text->text, what);
}

/* Names and values may come in pieces. */
static int header_field(llhttp_t *parser, const char *at, size_t len)
{
	struct web *web = parser->data;
	if (web->in_value)
		web->field.len = 0;
	web->in_value = false;
	add(&web->field, at, len);
	return 0;
}

static int header_value(llhttp_t *parser, const char *at, size_t len)
{
	struct web *web = parser->data;
	if (is(&web->field, "host")) {
		web->hosts += !web->in_value;
		add(&web->host, at, len);
	} else if (is(&web->field, "upgrade")) {
		add(&web->protocol, at, len);
	}
	web->in_value = true;
	return 0;
}

/* The name, perhaps with the root's dot, perhaps with the port that was called. */
static bool is_wanted(const struct web *web)
{
	size_t len = strlen(web->wanted);
	const char *rest = web->host.text + len;
	if (web->host.len < len || strncasecmp(web->host.text, web->wanted, len) != 0)
		return false;
	rest += *rest == '.';
	return rest == web->host.text + web->host.len || !strcmp(rest, web->port);
}

/* Requests are looked at until the server has agreed to speak something else. That must not be HTTP/2
 * or TLS, in which other hosts could be named. */
static int headers_complete(llhttp_t *parser)
{
	struct web *web = parser->data;
	if (web->hosts != 1 || !is_wanted(web) || parser->method == HTTP_CONNECT)
		return -1;
	web->upgrade = parser->upgrade && web->requests == 1 && is(&web->protocol, "websocket");
	parser->upgrade = 0;
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

void web_init(struct web *web, const char *wanted, unsigned port)
{
	memset(web, 0, sizeof *web);
	snprintf(web->port, sizeof web->port, ":%u", port);
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
	return llhttp_execute(&web->parser, data, len) == HPE_OK ? 0 : -1;
}
