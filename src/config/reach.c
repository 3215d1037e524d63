#include "config/reach.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "net/offline.h"

enum { NAMES_BYTES = 2000 }; /* of an environment that every program gets */

#define OFFLINE                                                                                       \
	OFFLINE_REASON                                                                                \
	". It can only be given one when it is created: aio create --network allow --allow NAME, or " \
	"\"network\": {\"mode\": \"allow\", \"allow\": [NAME]} in POST /v1/sandboxes."

const char reach_offline_hint[] = "A program asked for a host outside, but " OFFLINE;

static const char *const modes[] = { "none", "allow", "full" };

void reach_describe(const char *mode, const char *const *names, size_t count, struct buf *to)
{
	buf_str(to, mode);
	if (strcmp(mode, "allow") != 0)
		return;
	buf_printf(to, " %zu", count);
	size_t before = to->len;
	for (size_t i = 0; i < count && to->len - before + strlen(names[i]) < NAMES_BYTES; i++)
		buf_printf(to, "%s%s", i ? "," : " ", names[i]);
}

const char *reach_mode(const char *network)
{
	size_t len = network ? strcspn(network, " ") : 0;
	for (size_t i = 0; i < COUNT(modes); i++)
		if (len == strlen(modes[i]) && !strncmp(network, modes[i], len))
			return modes[i];
	return NULL;
}

const char *reach_why_not(const char *network)
{
	const char *mode = reach_mode(network);
	return mode == modes[0] ? OFFLINE
	       : mode == modes[1]
		       ? "this sandbox reaches only the names that it was created with: GET "
			 "/v1/sandbox lists them"
		       : NULL;
}

static void explain_names(const char *network, struct buf *to)
{
	size_t count = 0, shown = 0;
	int end = 0;
	(void)sscanf(network, "allow %zu %n", &count, &end);
	buf_str(to, "Network: allow. By TCP, these names can be reached and nothing else: ");
	for (const char *at = end ? network + end : ""; *at; shown++) {
		size_t len = strcspn(at, ",");
		buf_printf(to, "%s%.*s", shown ? ", " : "", (int)len, at);
		at += len + (at[len] == ',');
	}
	if (shown < count)
		buf_printf(to, " … (%zu of %zu names)", shown, count);
	buf_str(to, ". Whatever else is tried fails at once.\n");
}

void reach_explain(const char *network, struct buf *to)
{
	const char *mode = reach_mode(network);
	if (mode == modes[0])
		buf_str(to,
			"Network: none. Nothing outside this sandbox can be reached: pip install, npm "
			"install, apt-get, git clone and curl fail at once, and trying again does not "
			"help. A sandbox can only be given a network when it is created, with "
			"`aio create --network allow --allow packages.example.com` or "
			"\"network\": {\"mode\": \"allow\", \"allow\": [\"packages.example.com\"]} in "
			"POST /v1/sandboxes; the mode \"full\" opens everything public.\n");
	else if (mode == modes[1])
		explain_names(network, to);
	else if (mode)
		buf_str(to,
			"Network: full. Everything public can be reached; the machine, other sandboxes "
			"and private addresses cannot.\n");
}
