#include "api/preview_page.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/routes.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/html.h"
#include "base/log.h"
#include "base/own.h"
#include "net/call.h"
#include "net/upstream.h"
#include "proc/listening.h"

enum { PORTS_MAX = 50 };

static struct {
	char text[8192];
	const char *rest; /* after what is written here; NULL: there is no page */
} page;

void preview_page_load(const char *home)
{
	static const char here[] = "<!-- preview_page.c writes here -->";
	auto_free char *path = xasprintf("%s/%s", home, page_files[PAGE_PREVIEW].path);
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(page.text, 1, sizeof page.text - 1, file) : 0;
	if (file)
		fclose(file);
	page.text[len] = 0;
	char *at = strstr(page.text, here);
	if (!at) {
		log_warn(
			"people see no page where a preview fails: '%s' is missing or not the page",
			path);
		return;
	}
	page.rest = at + strlen(here);
	*at = 0;
}

static void add_port(struct buf *to, const struct preview_failure *failure,
		     const struct listening *it)
{
	buf_str(to, "<li>");
	if (failure->before) {
		buf_str(to, "<a href=\"");
		html_escape(to, failure->before);
		buf_printf(to, "%u", it->port);
		html_escape(to, failure->after);
		buf_printf(to, "\">%u</a> ", it->port);
	} else {
		buf_printf(to, "<b>%u</b> ", it->port);
	}
	buf_str(to, "<code>");
	html_escape(to, *it->command ? it->command : it->address);
	buf_str(to, "</code></li>\n");
}

/* A port once, however many addresses it listens on. */
static void add_ports(struct buf *to, const struct preview_failure *failure)
{
	unsigned before = 0;
	size_t shown = 0;
	buf_str(to, failure->count ? "<h2>Ports that programs listen on</h2>\n<ul>\n"
				   : "<p>No program of the sandbox listens on any port.</p>\n");
	for (size_t i = 0; i < failure->count && shown < PORTS_MAX; i++) {
		if (failure->ports[i].port == before)
			continue;
		before = failure->ports[i].port;
		shown++;
		add_port(to, failure, &failure->ports[i]);
	}
	if (failure->count)
		buf_str(to, "</ul>\n");
}

bool preview_page_show(const struct preview_failure *failure)
{
	struct call *call = failure->upstream->call;
	auto_buf struct buf to = BUF(1 << 20);
	struct err ignored;
	if (!page.rest || !failure->upstream->visit)
		return false;
	buf_str(&to, page.text);
	buf_printf(&to, "<h1>No preview of port %d</h1>\n<p>", failure->upstream->port);
	buf_printf(&to, "%c", toupper((unsigned char)*failure->text));
	html_escape(&to, failure->text + 1);
	buf_str(&to, ".</p>\n");
	if (failure->again)
		buf_str(&to, "<p id=\"again\">As soon as a program listens there, this page "
			     "shows it.</p>\n");
	add_ports(&to, failure);
	buf_str(&to, page.rest);
	const struct answer answer = { failure->status, "text/html; charset=utf-8", (int64_t)to.len,
				       .headers = { { "Content-Security-Policy",
						      page_files[PAGE_PREVIEW].policy },
						    { "Referrer-Policy", "no-referrer" },
						    { "Cache-Control", "no-store" } },
				       .header_count = 3 };
	if (call->sink->begin(call->sink, &answer, &ignored) == 0 && !call->head_only)
		(void)call->sink->write(call->sink, to.data, to.len, &ignored);
	return true;
}
