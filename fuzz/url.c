/* Text as a path, a query, a host and a URL: what comes out must keep what url.h promises. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void paths(const char *text)
{
	auto_buf struct buf file = BUF(1 << 20), slashed = BUF(1 << 20);
	if (url_path_clean(text, &file) < 0)
		return;
	buf_printf(&slashed, "/%s/", file.data);
	must(utf8_valid(file.data, file.len) && strlen(file.data) == file.len);
	must(file.data[0] != '/' && !strchr(file.data, '\\') && !strstr(file.data, "//"));
	must(!strstr(slashed.data, "/../") && !strstr(slashed.data, "/./"));
}

static void queries(const char *text)
{
	auto_buf struct buf name = BUF(1 << 20), value = BUF(1 << 20);
	struct url_query it = { text };
	while (url_query_next(&it, &name, &value))
		must(!name.full && !value.full);
}

static void codecs(const char *text, size_t len)
{
	auto_buf struct buf code = BUF(1 << 22), back = BUF(1 << 20), query = BUF(1 << 20);
	must(url_encode(&code, text) == 0);
	must(url_decode(&back, code.data ? code.data : "", code.len) == 0);
	must(url_query_decode(&query, code.data ? code.data : "", code.len) == 0);
	must(!strcmp(back.data, text) && !strcmp(query.data, text));
	(void)url_decode(&back, text, len);
}

static void urls(const char *text)
{
	struct url_parts parts, again;
	char name[URL_HOST_MAX + 1];
	int port;
	if (url_host_split(text, name, sizeof name, &port) == 0)
		must(*name && port >= 0 && port < 65536);
	if (url_split(text, &parts, NULL) < 0)
		return;
	must(parts.target[0] == '/' && parts.port > 0 && parts.port < 65536);
	auto_free char *url = xasprintf("%s://%s%s", parts.scheme, parts.authority, parts.target);
	must(url_split(url, &again, NULL) == 0 && again.port == parts.port);
	must(!strcmp(again.host, parts.host) && !strcmp(again.target, parts.target));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free char *text = xstrndup((const char *)input, size);
	paths(text);
	queries(text);
	codecs(text, strlen(text));
	urls(text);
	return 0;
}
