#include "cli/endpoint.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/remote.h"

#define DEFAULT_URL "http://localhost:8080"

static const struct endpoint_row {
	const char *flag, *arg, *help;
	size_t at;
} rows[] = {
	{ "--api-url", "URL",
	  "The sandbox's address. AIO_API_URL, else AIO_URL; default " DEFAULT_URL
	  ". A box of a host has one that ends with /s/NAME: see 'aio inspect'.",
	  offsetof(struct endpoint_flags, url) },
	{ "--api-key", "KEY", "The credential of the sandbox, where it needs one. SANDBOX_API_KEY.",
	  offsetof(struct endpoint_flags, key) },
	{ "--box", "NAME",
	  "Instead of an address: a box of the host, which is found through its state directory "
	  "(AIO_STATE; default /var/lib/aiobox), or through AIO_URL and AIO_HOST_TOKEN.",
	  offsetof(struct endpoint_flags, box) },
};

const char *const endpoint_names[] = { "--api-url", "--api-key", "--box", NULL };

int endpoint_take(struct endpoint_flags *flags, int argc, char **argv, int *at, struct err *err)
{
	const char *arg = argv[*at];
	size_t len = strcspn(arg, "=");
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char **to = (const char **)((char *)flags + rows[i].at);
		if (strlen(rows[i].flag) != len || memcmp(rows[i].flag, arg, len) != 0)
			continue;
		if (!arg[len] && *at + 1 >= argc)
			return err_set(err, ERR_INVALID, "%s needs a value: %s (see --help)",
				       rows[i].flag, rows[i].arg);
		*to = arg[len] ? arg + len + 1 : argv[++*at];
		++*at;
		return 1;
	}
	return 0;
}

void endpoint_help(void)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		printf("  %s %s\n      %s\n", rows[i].flag, rows[i].arg, rows[i].help);
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static void split_url(struct endpoint *ep, const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	size_t len = path ? strlen(path) : 0;
	while (len && path[len - 1] == '/')
		len--;
	ep->origin = path ? xstrndup(url, (size_t)(path - url)) : xstrdup(url);
	ep->prefix = xstrndup(path ? path : "", len);
}

static int find_box(const struct endpoint_flags *flags, struct endpoint *ep, struct err *err)
{
	struct remote remote = { .state = remote_state() };
	char *headers[3] = { NULL };
	if (remote_find(&remote, err) < 0 || remote_box(&remote, flags->box, headers, err) < 0)
		return -1;
	split_url(ep, remote.url);
	ep->owned[0] = headers[0];
	ep->owned[1] = headers[1];
	ep->headers[0] = headers[0];
	ep->headers[1] = headers[1];
	snprintf(ep->name, sizeof ep->name, "box '%.40s'", flags->box);
	return 0;
}

int endpoint_find(const struct endpoint_flags *flags, struct endpoint *ret, struct err *err)
{
	const char *url = flags->url                ? flags->url
			  : variable("AIO_API_URL") ? variable("AIO_API_URL")
			  : variable("AIO_URL")     ? variable("AIO_URL")
						    : DEFAULT_URL;
	const char *key = flags->key ? flags->key : variable("SANDBOX_API_KEY");
	*ret = (struct endpoint){ .name = "the sandbox" };
	if (flags->box && flags->url)
		return err_set(err, ERR_INVALID, "--box and --api-url: only one of them");
	if (flags->box)
		return find_box(flags, ret, err);
	split_url(ret, url);
	if (key && strpbrk(key, "\r\n"))
		return err_set(err, ERR_INVALID, "the API key has a line end in it");
	if (key)
		ret->headers[0] = ret->owned[0] = xasprintf("Authorization: Bearer %s", key);
	return 0;
}

void endpoint_done(struct endpoint *ep)
{
	free(TAKE(ep->origin));
	free(TAKE(ep->prefix));
	free(TAKE(ep->owned[0]));
	free(TAKE(ep->owned[1]));
}
