#include "net/proxy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

enum { TEXT_MAX = 1024 };

static const char *variable(const char *small, const char *large)
{
	const char *value = getenv(small);
	if ((!value || !*value) && large)
		value = getenv(large);
	return value && *value ? value : NULL;
}

/* Whether one entry of no_proxy, "example.com", ".example.com", "10.0.0.1" or one with ":port", is about
 * this server. */
static bool is_about(const char *entry, size_t len, const struct url_parts *url)
{
	char port[8];
	int n = snprintf(port, sizeof port, ":%d", url->port);
	if (len > (size_t)n && !strncmp(entry + len - n, port, (size_t)n))
		len -= (size_t)n;
	if (len > 1 && *entry == '.')
		entry++, len--;
	size_t host = strlen(url->host);
	if (len == 1 && *entry == '*')
		return true;
	if (!len || len > host || strncasecmp(url->host + host - len, entry, len) != 0)
		return false;
	return len == host || url->host[host - len - 1] == '.';
}

static bool is_excepted(const struct url_parts *url)
{
	const char *at = proxy_excepted();
	while (at && *at) {
		at += strspn(at, ", \t");
		size_t len = strcspn(at, ", \t");
		if (is_about(at, len, url))
			return true;
		at += len;
	}
	return false;
}

/* "user:password" as it stands in the URL of the proxy. */
static char *make_authorization(const char *user, size_t len)
{
	auto_buf struct buf plain = BUF(TEXT_MAX), text = BUF(TEXT_MAX * 2);
	buf_str(&text, "Basic ");
	if (url_decode(&plain, user, len) < 0 || base64_encode(&text, plain.data, plain.len) < 0)
		return NULL;
	return TAKE(text.data);
}

static int split(const char *value, struct proxy *ret, struct err *err)
{
	const char *scheme = strstr(value, "://"), *rest = scheme ? scheme + 3 : value;
	size_t user = strcspn(rest, "/?#");
	const char *at = memrchr(rest, '@', user);
	struct proxy proxy = { 0 };
	if (scheme && strncasecmp(value, "http://", 7) != 0)
		return err_set(err, ERR_INVALID,
			       "the proxy '%.*s://…' is not supported: name one with http://",
			       (int)(scheme - value), value);
	auto_free char *url = xasprintf("http://%s", at ? at + 1 : rest);
	if (url_split(url, &proxy.at, err) < 0)
		return err_set(err, ERR_INVALID, "the environment names no proxy: '%s'",
			       at ? at + 1 : rest);
	if (at)
		proxy.authorization = make_authorization(rest, (size_t)(at - rest));
	*ret = proxy;
	return 1;
}

const char *proxy_named(void)
{
	const char *value = variable("https_proxy", "HTTPS_PROXY");
	value = value ? value : variable("http_proxy", NULL);
	return value ? value : variable("all_proxy", "ALL_PROXY");
}

const char *proxy_excepted(void)
{
	return variable("no_proxy", "NO_PROXY");
}

static _Atomic(const char *) in_use;

void proxy_use(const char *url)
{
	in_use = url;
}

static bool is_loopback(const char *host)
{
	return !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

int proxy_find(const struct url_parts *url, struct proxy *ret, struct err *err)
{
	const char *used = in_use;
	const char *value = url->secure ? variable("https_proxy", "HTTPS_PROXY")
					: variable("http_proxy", NULL);
	if (used)
		return is_loopback(url->host) ? 0 : split(used, ret, err);
	value = value ? value : variable("all_proxy", "ALL_PROXY");
	return !value || is_excepted(url) ? 0 : split(value, ret, err);
}
