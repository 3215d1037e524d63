#include "host/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "net/http.h"
#include "net/target.h"
#include "net/wire.h"

bool address_is_id(const char *id)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t len = strlen(id);
	return len && len <= BOX_ID_MAX && id[0] >= 'a' && id[0] <= 'z' &&
	       strspn(id, allowed) == len && id[len - 1] != '-' && !strstr(id, "--");
}

static int take_port(const char *name, const char **ret_rest, struct address *ret, struct err *err)
{
	ret->port = target_label(name, ret_rest);
	if (ret->port >= 0)
		return 0;
	return err_set(err, ERR_NOT_FOUND, "'%.*s' is not a port", (int)(*ret_rest - 1 - name),
		       name);
}

/* "ID", "PORT-ID" (no id begins with a digit). */
static int take_label(const char *label, struct address *ret, struct err *err)
{
	const char *id = label;
	if (take_port(label, &id, ret, err) < 0)
		return -1;
	if (!address_is_id(id))
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", id);
	snprintf(ret->id, sizeof ret->id, "%s", id);
	return 0;
}

/* "host.DOMAIN", where that is not a box's name. */
static bool is_hosts(const char *name, const char *domain)
{
	size_t len = strlen(ADDRESS_HOST);
	return !strncasecmp(name, ADDRESS_HOST ".", len + 1) && !strcasecmp(name + len + 1, domain);
}

/* 1 if the name is one of a box below this domain, or "PORT-DOMAIN"; 0 if not, -1 on error. */
static int take_name(char *name, const char *domain, struct address *ret, struct err *err)
{
	const char *rest;
	int result;
	if (!domain)
		return 0;
	if (target_label(name, &rest) && !strcasecmp(rest, domain)) {
		result = take_port(name, &rest, ret, err);
	} else if (target_below(name, domain) && strlen(name) > strlen(domain)) {
		name[strlen(name) - strlen(domain) - 1] = 0;
		result = take_label(name, ret, err);
	} else {
		return 0;
	}
	ret->own_origin = ret->named = true;
	return result < 0 ? -1 : 1;
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

/* The same for all names. */
static int take_names(char *name, const struct address_names *names, struct address *ret,
		      struct err *err)
{
	const char *const domains[] = { names->domain, "localhost" };
	int found = 0;
	for (size_t i = 0; i < COUNT(domains) && !found; i++) {
		ret->hosts = domains[i] && names->plain_is_default && is_hosts(name, domains[i]);
		found = ret->hosts ? 2 : take_name(name, domains[i], ret, err);
	}
	return found;
}

/* The box's own URLs name it in the path: a client may follow one and send its header too. */
static size_t same_prefix(const char *target, const char *id)
{
	size_t len = strlen(id);
	bool same = !strncmp(target, "/s/", 3) && !strncmp(target + 3, id, len) &&
		    strchr("/?", target[3 + len]);
	return same ? 3 + len : 0;
}

int address_find(const struct http_head *head, const struct address_names *names,
		 struct address *ret, struct err *err)
{
	char name[URL_HOST_MAX + 1];
	const char *header = http_header(head, WIRE_SANDBOX);
	const char *port = http_header(head, WIRE_PORT);
	*ret = (struct address){ .id = "default" };
	if (target_name(http_header(head, "host"), name, sizeof name) == 0) {
		int found = take_names(name, names, ret, err);
		if (found && !ret->hosts)
			return found < 0 ? -1 : 0;
	}
	/* One of them may be a proxy's, and nobody knows which. */
	if (http_header_count(head, WIRE_SANDBOX) > 1)
		return err_set(err, ERR_BAD_REQUEST, "duplicate x-aio-sandbox header");
	if (header) {
		snprintf(ret->id, sizeof ret->id, "%.*s", BOX_ID_MAX, header);
		ret->prefix = same_prefix(head->target, header);
		ret->named = true;
	} else if (!strncmp(head->target, "/s/", 3) && take_prefix(head->target, ret, err) < 0) {
		return -1;
	}
	if (port)
		ret->port = target_port(port, strlen(port));
	ret->own_origin = names->plain_is_default && !ret->hosts && !ret->named;
	if (!address_is_id(header ? header : ret->id))
		return err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'",
			       header ? header : ret->id);
	return 0;
}
