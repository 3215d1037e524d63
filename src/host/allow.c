#include "host/allow.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "egress/rules.h"

/* The host name in a URL, with its port; false: it has none. */
static bool host_of(const char *url, char *to, size_t size)
{
	const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
	size_t len = strcspn(host, "/?#");
	if (len == strlen(url) || len >= size)
		return false;
	snprintf(to, size, "%.*s", (int)len, host);
	return rules_is_name(to, len);
}

static int check(const char *text, size_t len, const char *where, struct err *err)
{
	char host[260];
	if (rules_is_name(text, len))
		return 0;
	if (host_of(text, host, sizeof host))
		return err_set(err, ERR_INVALID, "%s: '%.100s' is a URL; give the host name: %s",
			       where, text, host);
	return err_set(
		err, ERR_INVALID,
		"%s: '%.100s' is neither a host name nor *.DOMAIN nor *, optionally with :PORT",
		where, text);
}

int allow_check(const json_t *names, const char *where, struct err *err)
{
	json_t *name;
	size_t i;
	json_array_foreach(names, i, name)
		if (check(json_string_value(name), json_string_length(name), where, err) < 0)
			return -1;
	return 0;
}
