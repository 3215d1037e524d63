#include "host/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/url.h"
#include "net/http.h"

bool address_is_id(const char *id)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t len = strlen(id);
	return len && len <= BOX_ID_MAX && id[0] >= 'a' && id[0] <= 'z' &&
	       strspn(id, allowed) == len && id[len - 1] != '-' && !strstr(id, "--");
}

/* 0 for what is no port. */
static int port_number(const char *text, size_t len)
{
	if (!len || len > 5 || text[0] == '0' || strspn(text, "0123456789") < len)
		return 0;
	int port = atoi(text);
	return port <= 65535 ? port : 0;
}

/* "ID", "PORT-ID" (no id begins with a digit). */
static int take_label(const char *label, struct address *ret, struct err *err)
{
	size_t digits = strspn(label, "0123456789");
	if (digits && label[digits] == '-') {
		ret->port = port_number(label, digits);
		if (!ret->port)
			return err_set(err, ERR_NOT_FOUND, "'%.*s' is no port", (int)digits, label);
		label += digits + 1;
	}
	if (!address_is_id(label))
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", label);
	snprintf(ret->id, sizeof ret->id, "%s", label);
	ret->own_origin = ret->named = true;
	return 0;
}

/* 1 if the name is one of a box below this domain, 0 if not, -1 on error. */
static int take_name(char *name, const char *domain, struct address *ret, struct err *err)
{
	size_t len = strlen(name), below = domain ? strlen(domain) : 0;
	if (!below || len <= below || strcasecmp(name + len - below, domain) != 0)
		return 0;
	char before = name[len - below - 1];
	if (before == '.') {
		name[len - below - 1] = 0;
		return take_label(name, ret, err) < 0 ? -1 : 1;
	}
	size_t digits = strspn(name, "0123456789");
	if (before != '-' || digits + 1 != len - below)
		return 0;
	ret->port = port_number(name, digits);
	ret->own_origin = ret->named = true;
	if (!ret->port)
		return err_set(err, ERR_NOT_FOUND, "'%.*s' is no port", (int)digits, name);
	return 1;
}

static int take_prefix(const char *target, struct address *ret, struct err *err)
{
	size_t len = strcspn(target + 3, "/?");
	if (len > BOX_ID_MAX)
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", target + 3);
	memcpy(ret->id, target + 3, len);
	ret->id[len] = 0;
	ret->prefix = 3 + len;
	ret->named = true;
	return 0;
}

int address_find(const struct http_head *head, const char *domain, struct address *ret,
		 struct err *err)
{
	char name[URL_HOST_MAX + 1];
	int ignored;
	const char *host = http_header(head, "host");
	const char *header = http_header(head, "x-aio-sandbox");
	const char *port = http_header(head, "x-aio-proxy-port");
	*ret = (struct address){ .id = "default" };
	if (host && url_host_split(host, name, sizeof name, &ignored) == 0) {
		size_t len = strlen(name);
		if (len && name[len - 1] == '.')
			name[len - 1] = 0;
		int found = take_name(name, domain, ret, err);
		if (found == 0)
			found = take_name(name, "localhost", ret, err);
		if (found)
			return found < 0 ? -1 : 0;
	}
	/* One of them may be a proxy's, and nobody knows which. */
	if (http_header_count(head, "x-aio-sandbox") > 1)
		return err_set(err, ERR_INVALID, "x-aio-sandbox is there more than once");
	if (header) {
		snprintf(ret->id, sizeof ret->id, "%.*s", BOX_ID_MAX, header);
		ret->named = true;
	} else if (!strncmp(head->target, "/s/", 3) && take_prefix(head->target, ret, err) < 0) {
		return -1;
	}
	if (port)
		ret->port = port_number(port, strlen(port));
	if (!address_is_id(header ? header : ret->id))
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'",
			       header ? header : ret->id);
	return 0;
}
