#include "egress/http_host.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int begin(llhttp_t *parser)
{
	struct http_host *watch = parser->data;
	watch->field.len = watch->host.len = watch->protocol.len = watch->url_len = watch->hosts =
		0;
	watch->in_value = false;
	watch->requests++;
	return 0;
}

/* What does not fit is like nothing that is looked for. */
static void add(struct http_host_text *to, const char *at, size_t len)
{
	size_t room = sizeof to->text - 1 - to->len;
	memcpy(to->text + to->len, at, len < room ? len : room);
	to->len += len < room ? len : room;
	to->text[to->len] = 0;
}

static bool is(const struct http_host_text *text, const char *what)
{
	return text->len == strlen(what) && !strcasecmp(text->text, what);
}

/* Names and values may come in pieces. */
static int header_field(llhttp_t *parser, const char *at, size_t len)
{
	struct http_host *watch = parser->data;
	if (watch->in_value)
		watch->field.len = 0;
	watch->in_value = false;
	add(&watch->field, at, len);
	return 0;
}

static int header_value(llhttp_t *parser, const char *at, size_t len)
{
	struct http_host *watch = parser->data;
	if (is(&watch->field, "host")) {
		watch->hosts += !watch->in_value;
		add(&watch->host, at, len);
	} else if (is(&watch->field, "upgrade")) {
		add(&watch->protocol, at, len);
	}
	watch->in_value = true;
	return 0;
}

/* The name, perhaps with the root's dot, perhaps with the port that was called. */
static bool is_wanted(const struct http_host *watch)
{
	size_t len = strlen(watch->wanted);
	const char *rest = watch->host.text + len;
	if (watch->host.len < len || strncasecmp(watch->host.text, watch->wanted, len) != 0)
		return false;
	rest += *rest == '.';
	return rest == watch->host.text + watch->host.len || !strcmp(rest, watch->port);
}

/* Requests are looked at until the server has agreed to speak something else. That must not be HTTP/2
 * or TLS, in which other hosts could be named. */
static int headers_complete(llhttp_t *parser)
{
	struct http_host *watch = parser->data;
	if (watch->hosts != 1 || !is_wanted(watch) || parser->method == HTTP_CONNECT)
		return -1;
	watch->upgrade = parser->upgrade && watch->requests == 1 &&
			 is(&watch->protocol, "websocket");
	parser->upgrade = 0;
	return 0;
}

/* A target with a host in it is for a proxy. */
static int url(llhttp_t *parser, const char *at, size_t len)
{
	struct http_host *watch = parser->data;
	bool first = !watch->url_len;
	watch->url_len += len;
	return first && len && *at != '/' && *at != '*' ? -1 : 0;
}

void http_host_init(struct http_host *watch, const char *wanted, unsigned port)
{
	memset(watch, 0, sizeof *watch);
	snprintf(watch->port, sizeof watch->port, ":%u", port);
	llhttp_settings_init(&watch->settings);
	watch->settings.on_message_begin = begin;
	watch->settings.on_url = url;
	watch->settings.on_header_field = header_field;
	watch->settings.on_header_value = header_value;
	watch->settings.on_headers_complete = headers_complete;
	llhttp_init(&watch->parser, HTTP_REQUEST, &watch->settings);
	watch->parser.data = watch;
	watch->wanted = wanted;
}

int http_host_feed(struct http_host *watch, const char *data, size_t len)
{
	return llhttp_execute(&watch->parser, data, len) == HPE_OK ? 0 : -1;
}
