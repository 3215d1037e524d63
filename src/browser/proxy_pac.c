#include "browser/proxy_pac.h"

#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/json.h"
#include "config/config.h"

enum { PAC_MAX = 256 << 10 };

/* A comma list as an array of strings; a leading dot or "*." means the same as none. */
static void add_list(struct buf *to, const char *name, const char *list, struct arena *arena)
{
	char *rest = list ? arena_strdup(arena, list) : NULL;
	struct jw jw;
	jw_init(&jw, PAC_MAX);
	jw_open(&jw, '[');
	for (char *host; (host = strsep(&rest, ", \t"));) {
		if (!strncmp(host, "*.", 2) && host[2])
			host += 2;
		else if (*host == '.')
			host++;
		if (*host)
			jw_str(&jw, host);
	}
	jw_close(&jw, ']');
	(void)buf_printf(to, "const %s = %s;\n", name, jw_failed(&jw) ? "[]" : jw.out.data);
	jw_done(&jw);
}

/* "http://host:port" is what PAC calls "PROXY host:port". */
static const char *proxy_words(const char *server, struct arena *arena)
{
	static const struct {
		const char *scheme, *word;
	} rows[] = { { "http://", "PROXY" },
		     { "https://", "HTTPS" },
		     { "socks4://", "SOCKS" },
		     { "socks5://", "SOCKS5" },
		     { "socks://", "SOCKS5" } };
	const char *word = "PROXY";
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strncmp(server, rows[i].scheme, strlen(rows[i].scheme))) {
			server += strlen(rows[i].scheme);
			word = rows[i].word;
			break;
		}
	const char *credentials = memrchr(server, '@', strcspn(server, "/"));
	if (credentials)
		server = credentials + 1;
	return arena_printf(arena, "%s %.*s", word, (int)strcspn(server, "/"), server);
}

static void add_string(struct buf *to, const char *text)
{
	struct jw jw;
	jw_init(&jw, PAC_MAX);
	jw_str(&jw, text);
	(void)buf_add(to, jw.out.data, jw.out.len);
	jw_done(&jw);
}

static bool is_set(const char *text)
{
	return text && *text;
}

static const char *with_proxy(const struct config *config, struct arena *arena)
{
	static const char body[] =
		"function within(host, list) {\n"
		"\treturn list.some((one) => one === \"*\" || host === one || "
		"host.endsWith(\".\" + one) ||\n"
		"\t\t(/[*?]/.test(one) && shExpMatch(host, one)));\n"
		"}\n"
		"function FindProxyForURL(url, host) {\n"
		"\tif (within(host, exclude) || (include.length && !within(host, include)))\n"
		"\t\treturn \"DIRECT\";\n"
		"\treturn proxy;\n"
		"}\n";
	auto_buf struct buf text = BUF(PAC_MAX);
	add_list(&text, "exclude", config->proxy_exclude, arena);
	add_list(&text, "include", config->proxy_include, arena);
	(void)buf_str(&text, "const proxy = ");
	add_string(&text, proxy_words(config->proxy_server, arena));
	(void)buf_str(&text, ";\n");
	(void)buf_str(&text, body);
	return arena_strdup(arena, text.data);
}

const char *proxy_pac(const struct config *config, struct arena *arena)
{
	return is_set(config->proxy_server)
		       ? with_proxy(config, arena)
		       : "function FindProxyForURL(url, host) {\n\treturn \"DIRECT\";\n}\n";
}

const char *proxy_pac_url(const struct config *config, struct arena *arena)
{
	auto_buf struct buf url = BUF(2 * PAC_MAX);
	if (!is_set(config->proxy_server))
		return NULL;
	const char *text = proxy_pac(config, arena);
	(void)buf_str(&url, "data:application/x-ns-proxy-autoconfig;base64,");
	(void)base64_encode(&url, text, strlen(text));
	return url.full ? NULL : arena_strdup(arena, url.data);
}
