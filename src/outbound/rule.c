#include "outbound/rule.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"

#define DIGITS "0123456789"

/* ---- hosts ---- */

/* '*' stands for any characters, dots too. */
static bool matches(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;
	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			resume = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

/* A host that may have a '*', and the port behind it (0: none). */
static int split_host(const char *text, size_t len, char *host, int *ret_port)
{
	char plain[URL_HOST_MAX + 16], name[URL_HOST_MAX + 1];
	if (!len || len >= sizeof plain)
		return -1;
	for (size_t i = 0; i <= len; i++)
		plain[i] = i == len ? 0 : text[i] == '*' ? 'x' : text[i];
	if (url_host_split(plain, name, sizeof name, ret_port) < 0)
		return -1;
	for (size_t i = 0; name[i] && *text != '['; i++)
		if (text[i] == '*')
			name[i] = '*';
	strcpy(host, name);
	return 0;
}

static int parse_port(const char *text, size_t len)
{
	int port = 0;
	if (!len || len > 5 || strspn(text, DIGITS) < len)
		return 0;
	for (size_t i = 0; i < len; i++)
		port = port * 10 + (text[i] - '0');
	return port > 65535 ? 0 : port;
}

/* ---- mappings ---- */

/* Of one that goes into a request's first line. */
static bool is_path(const char *path)
{
	for (const char *at = path; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == '?' || *at == '#')
			return false;
	return !strchr(path, '*');
}

static char *trim_path(const char *path)
{
	size_t len = strlen(path);
	if (len && path[len - 1] == '*')
		len--;
	while (len > 1 && path[len - 1] == '/')
		len--;
	return len ? xstrndup(path, len) : xstrdup("/");
}

static int parse_source(const char *text, struct rule_mapping *to, struct err *err)
{
	const char *rest = strstr(text, "://");
	size_t scheme = rest ? (size_t)(rest - text) : 0;
	rest = rest ? rest + 3 : text;
	size_t host = strcspn(rest, "/");
	if (rest != text && (scheme == 4   ? strncasecmp(text, "http", 4) != 0
			     : scheme == 5 ? strncasecmp(text, "https", 5) != 0
					   : true))
		return err_set(err, ERR_INVALID,
			       "the source '%s' has an unknown protocol: use http:// or https://",
			       text);
	snprintf(to->scheme, sizeof to->scheme, "%s",
		 scheme == 4   ? "http"
		 : scheme == 5 ? "https"
			       : "");
	if (split_host(rest, host, to->host, &to->port) < 0)
		return err_set(err, ERR_INVALID,
			       "invalid source '%s': expected [protocol://]host[:port][/path]",
			       text);
	to->path = trim_path(rest + host);
	if (!is_path(to->path))
		return err_set(err, ERR_INVALID,
			       "the path of the source '%s' has a query, a space or a '*' that is "
			       "not its last character",
			       text);
	if (scheme == 5 && to->path[1])
		return err_set(err, ERR_INVALID,
			       "the source '%s' has a path, which is encrypted in https: map the "
			       "whole host, or http://",
			       text);
	return 0;
}

static int parse_target(const char *text, struct rule_mapping *to, struct err *err)
{
	const char *rest = !strncasecmp(text, "http://", 7) ? text + 7 : text;
	size_t len = strcspn(rest, "/");
	const char *colon = memrchr(rest, ':', len);
	const char *port = colon ? colon + 1 : rest;
	auto_free char *host = xstrndup(rest, colon ? (size_t)(colon - rest) : 0);
	int ignored = 0;
	to->to_port = parse_port(port, (size_t)(rest + len - port));
	bool named =
		!*host ||
		(url_host_split(host, to->to_host, sizeof to->to_host, &ignored) == 0 && !ignored);
	if (!named || !to->to_port)
		return err_set(err, ERR_INVALID, "invalid target '%s': expected [host:]port[/path]",
			       text);
	if (!*host)
		strcpy(to->to_host, "127.0.0.1");
	to->to_path = rest[len] ? trim_path(rest + len) : NULL;
	if (to->to_path && !is_path(to->to_path))
		return err_set(err, ERR_INVALID,
			       "the path of the target '%s' has a query, a space or a '*'", text);
	if (to->to_path && !strcmp(to->scheme, "https"))
		return err_set(err, ERR_INVALID,
			       "the target '%s' has a path, and a path of https is encrypted: "
			       "leave it out",
			       text);
	return 0;
}

int rule_mapping_parse(const char *source, const char *target, struct rule_mapping *ret,
		       struct err *err)
{
	struct rule_mapping mapping = { 0 };
	if (strlen(source) > RULE_TEXT_MAX || strlen(target) > RULE_TEXT_MAX)
		return err_set(err, ERR_INVALID, "a mapping is longer than %d bytes",
			       RULE_TEXT_MAX);
	if (parse_source(source, &mapping, err) < 0 || parse_target(target, &mapping, err) < 0) {
		rule_mapping_done(&mapping);
		return -1;
	}
	mapping.source = xstrdup(source);
	mapping.target = xstrdup(target);
	*ret = mapping;
	return 0;
}

void rule_mapping_done(struct rule_mapping *mapping)
{
	free(mapping->source);
	free(mapping->target);
	free(mapping->path);
	free(mapping->to_path);
}

bool rule_mapping_same(const struct rule_mapping *a, const struct rule_mapping *b)
{
	return !strcmp(a->scheme, b->scheme) && !strcmp(a->host, b->host) && a->port == b->port &&
	       !strcmp(a->path, b->path);
}

/* How many bytes of the path are the mapping's; -1: it is about another. */
static int covered(const char *own, const char *path)
{
	size_t len = own[1] ? strlen(own) : 0;
	if (strncmp(path, own, len) != 0 || (path[len] && !strchr("/?", path[len])))
		return -1;
	return (int)len;
}

static bool has_host(const struct rule_mapping *mapping, const struct rule_url *url)
{
	return (!url->scheme || !*mapping->scheme || !strcmp(mapping->scheme, url->scheme)) &&
	       (!mapping->port || mapping->port == url->port) && matches(mapping->host, url->host);
}

/* Of a tunnel no path can be seen, and none be changed. */
static bool is_about(const struct rule_mapping *mapping, const struct rule_url *url)
{
	return has_host(mapping, url) && (url->path ? covered(mapping->path, url->path) >= 0
						    : !mapping->path[1] && !mapping->to_path);
}

/* Below 0: `a` is less specific. */
static long compare(const struct rule_mapping *a, const struct rule_mapping *b)
{
	const long by[] = {
		!strchr(a->host, '*') - !strchr(b->host, '*'),
		(long)strlen(a->host) - (long)strlen(b->host),
		(a->port != 0) - (b->port != 0),
		(*a->scheme != 0) - (*b->scheme != 0),
		(long)strlen(a->path) - (long)strlen(b->path),
	};
	for (size_t i = 0; i < COUNT(by); i++)
		if (by[i])
			return by[i];
	return 0;
}

const struct rule_mapping *rule_mapping_find(const struct rule_mapping *mappings, size_t count,
					     const struct rule_url *url)
{
	const struct rule_mapping *best = NULL;
	for (size_t i = 0; i < count; i++)
		if (is_about(&mappings[i], url) && (!best || compare(&mappings[i], best) > 0))
			best = &mappings[i];
	return best;
}

const struct rule_mapping *rule_mapping_missed(const struct rule_mapping *mappings, size_t count,
					       const struct rule_url *url)
{
	for (size_t i = 0; i < count; i++)
		if (!url->path && has_host(&mappings[i], url) && !is_about(&mappings[i], url))
			return &mappings[i];
	return NULL;
}

char *rule_mapping_path(const struct rule_mapping *mapping, const char *path)
{
	int own = covered(mapping->path, path);
	if (!mapping->to_path || own < 0)
		return xstrdup(path);
	const char *rest = path + own, *to = mapping->to_path[1] ? mapping->to_path : "";
	return xasprintf("%s%s%s", to, *rest == '/' || *to ? "" : "/", rest);
}

/* ---- patterns ---- */

static int parse_network(const char *text, const char *slash, struct rule_pattern *to,
			 struct err *err)
{
	auto_free char *address = xstrndup(text, (size_t)(slash - text));
	size_t digits = strspn(slash + 1, DIGITS);
	to->family = strchr(address, ':') ? AF_INET6 : AF_INET;
	int most = to->family == AF_INET6 ? 128 : 32;
	to->bits = digits && digits < 4 && !slash[1 + digits] ? atoi(slash + 1) : -1;
	if (to->bits < 0 || to->bits > most || inet_pton(to->family, address, to->address) != 1)
		return err_set(err, ERR_INVALID,
			       "invalid network '%s': expected one such as 10.0.0.0/8", text);
	return 0;
}

static int parse_name(const char *text, struct rule_pattern *to, struct err *err)
{
	to->below = *text == '.';
	const char *name = text + to->below;
	struct in6_addr six;
	to->bits = -1;
	if (inet_pton(AF_INET6, name, &six) == 1) { /* also without brackets */
		inet_ntop(AF_INET6, &six, to->host, sizeof to->host);
		return 0;
	}
	if (split_host(name, strlen(name), to->host, &to->port) < 0)
		return err_set(err, ERR_INVALID,
			       "invalid pattern '%s': expected a host, *.host, .host or a network "
			       "such as 10.0.0.0/8",
			       text);
	return 0;
}

int rule_pattern_parse(const char *text, struct rule_pattern *ret, struct err *err)
{
	struct rule_pattern pattern = { 0 };
	const char *slash = strchr(text, '/');
	if (strlen(text) > RULE_TEXT_MAX)
		return err_set(err, ERR_INVALID, "a pattern is longer than %d bytes",
			       RULE_TEXT_MAX);
	if ((slash ? parse_network(text, slash, &pattern, err) : parse_name(text, &pattern, err)) <
	    0)
		return -1;
	pattern.text = xstrdup(text);
	*ret = pattern;
	return 0;
}

void rule_pattern_done(struct rule_pattern *pattern)
{
	free(pattern->text);
}

static bool is_within(const struct rule_pattern *network, const char *host)
{
	uint8_t address[16];
	if (inet_pton(network->family, host, address) != 1)
		return false;
	size_t bytes = (size_t)network->bits / 8;
	int rest = network->bits % 8;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));
	return !memcmp(address, network->address, bytes) &&
	       (!rest || !((address[bytes] ^ network->address[bytes]) & mask));
}

static bool has_name(const struct rule_pattern *pattern, const char *host)
{
	size_t len = strlen(host), own = strlen(pattern->host);
	if (pattern->below && len > own && host[len - own - 1] == '.' &&
	    matches(pattern->host, host + len - own))
		return true;
	return matches(pattern->host, host);
}

const struct rule_pattern *rule_pattern_find(const struct rule_pattern *patterns, size_t count,
					     const char *host, int port)
{
	for (size_t i = 0; i < count; i++) {
		const struct rule_pattern *one = &patterns[i];
		if (one->bits >= 0 ? is_within(one, host)
				   : (!one->port || one->port == port) && has_name(one, host))
			return one;
	}
	return NULL;
}

const char *rule_list_next(const char **at, size_t *ret_len)
{
	const char *item = *at + strspn(*at, ", \t\n");
	*ret_len = strcspn(item, ", \t\n");
	*at = item + *ret_len;
	return *ret_len ? item : NULL;
}
