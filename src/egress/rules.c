#include "egress/rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

enum { RULES_MAX = 1000 };

struct name_rule {
	char *name; /* "*": all; ".x": below x */
	unsigned port;
};

struct net {
	uint32_t address, mask;
};

struct rules {
	size_t count, net_count;
	struct name_rule names[RULES_MAX];
	struct net nets[RULES_MAX];
};

/* Everything that is not global unicast, as the registries of IANA have it. */
static const struct net closed[] = {
	{ 0x00000000, 0xff000000 }, /* this network */
	{ 0x0a000000, 0xff000000 }, /* private */
	{ 0x64400000, 0xffc00000 }, /* carrier's */
	{ 0x7f000000, 0xff000000 }, /* loopback */
	{ 0xa9fe0000, 0xffff0000 }, /* link-local, and where clouds tell machines their secrets */
	{ 0xac100000, 0xfff00000 }, /* private */
	{ 0xc0000000, 0xffffff00 }, /* protocols */
	{ 0xc0000200, 0xffffff00 }, /* documentation */
	{ 0xc0586300, 0xffffff00 }, /* 6to4 */
	{ 0xc0a80000, 0xffff0000 }, /* private */
	{ 0xc6120000, 0xfffe0000 }, /* benchmarks: our own names are here */
	{ 0xc6336400, 0xffffff00 }, /* documentation */
	{ 0xcb007100, 0xffffff00 }, /* documentation */
	{ 0xe0000000, 0xe0000000 }, /* multicast and reserved */
};

static bool is_name(const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			return false;
	return len && len <= 253 && name[0] != '.' && !strstr(name, "..");
}

static int add_name(struct rules *rules, char *text, struct err *err)
{
	char *colon = strrchr(text, ':');
	unsigned long port = 0;
	if (colon) {
		char *end;
		port = strtoul(colon + 1, &end, 10);
		if (*end || !port || port > 65535)
			return err_set(err, ERR_INVALID, "'%s' is not the number of a port",
				       colon + 1);
		*colon = 0;
	}
	const char *name = !strcmp(text, "*") ? text : !strncmp(text, "*.", 2) ? text + 1 : text;
	size_t len = strlen(name);
	if (len > 1 && name[len - 1] == '.')
		text[strlen(text) - 1] = 0;
	if (*text == '.' || (strcmp(name, "*") != 0 && !is_name(name + (*name == '.'))))
		return err_set(err, ERR_INVALID, "'%s' is neither a host name nor *.DOMAIN", text);
	if (inet_pton(AF_INET, text, &(struct in_addr){ 0 }) == 1)
		return err_set(
			err, ERR_INVALID,
			"'%s' is an address: only names can be allowed; 'full' reaches addresses",
			text);
	rules->names[rules->count++] = (struct name_rule){ xstrdup(name), (unsigned)port };
	return 0;
}

static int add_net(struct rules *rules, char *text, struct err *err)
{
	struct in_addr address;
	char *slash = strchr(text, '/'), *end = NULL;
	unsigned long bits = slash ? strtoul(slash + 1, &end, 10) : 32;
	if (slash)
		*slash = 0;
	if ((end && (*end || end == slash + 1)) || bits > 32 ||
	    inet_pton(AF_INET, text, &address) != 1)
		return err_set(err, ERR_INVALID, "'%s' is not a network such as 10.0.0.0/8", text);
	uint32_t mask = bits ? ~0U << (32 - bits) : 0;
	rules->nets[rules->net_count++] = (struct net){ ntohl(address.s_addr) & mask, mask };
	return 0;
}

static int add_all(struct rules *rules, const char *list,
		   int (*add)(struct rules *, char *, struct err *), struct err *err)
{
	auto_free char *copy = xstrdup(list ? list : "");
	char *state, *text = strtok_r(copy, ", ", &state);
	for (size_t i = 0; text; text = strtok_r(NULL, ", ", &state), i++) {
		if (i == RULES_MAX)
			return err_set(err, ERR_INVALID, "more than %d rules", RULES_MAX);
		if (add(rules, text, err) < 0)
			return -1;
	}
	return 0;
}

struct rules *rules_new(const char *names, const char *nets, struct err *err)
{
	struct rules *rules = xcalloc(1, sizeof *rules);
	if (add_all(rules, names, add_name, err) == 0 && add_all(rules, nets, add_net, err) == 0)
		return rules;
	rules_free(rules);
	return NULL;
}

static bool is_label(const char *label, size_t len)
{
	return len && len <= 63 && label[0] != '-' && label[len - 1] != '-';
}

bool rules_is_name(const char *text, size_t len)
{
	auto_free char *copy = xstrdup(text);
	char *colon = strchr(copy, ':'), *name = !strncmp(copy, "*.", 2) ? copy + 2 : copy;
	if (colon)
		*colon = 0;
	size_t end = strlen(name);
	if (end && name[end - 1] == '.')
		name[end - 1] = 0;
	bool valid = strlen(text) == len && (!colon || isdigit((unsigned char)colon[1])) &&
		     (is_name(name) || (name == copy && !strcmp(name, "*")));
	for (char *rest = name, *label; valid && (label = strsep(&rest, "."));)
		valid = is_label(label, strlen(label));
	return valid;
}

void rules_free(struct rules *rules)
{
	for (size_t i = 0; rules && i < rules->count; i++)
		free(rules->names[i].name);
	free(rules);
}

static bool name_matches(const char *rule, const char *name)
{
	size_t below = strlen(rule), len = strlen(name);
	if (!strcmp(rule, "*"))
		return true;
	if (*rule != '.')
		return !strcasecmp(rule, name);
	return len > below && !strcasecmp(name + len - below, rule);
}

bool rules_allow(const struct rules *rules, const char *name, unsigned port)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct name_rule *rule = &rules->names[i];
		if (name_matches(rule->name, name) && (!port || !rule->port || rule->port == port))
			return true;
	}
	return false;
}

static bool is_in(const struct net *nets, size_t count, uint32_t address)
{
	for (size_t i = 0; i < count; i++)
		if ((address & nets[i].mask) == nets[i].address)
			return true;
	return false;
}

bool rules_opened(const struct rules *rules, uint32_t address)
{
	return is_in(rules->nets, rules->net_count, address);
}

bool rules_address(const struct rules *rules, uint32_t address)
{
	return rules_opened(rules, address) || !is_in(closed, COUNT(closed), address);
}

void rules_sets(const char *nets, struct buf *to)
{
	buf_str(to, "\tset open { type ipv4_addr; flags interval; auto-merge;");
	if (nets && *nets)
		buf_printf(to, " elements = { %s };", nets);
	buf_str(to, " }\n\tset closed { type ipv4_addr; flags interval; auto-merge; elements = {");
	for (size_t i = 0; i < COUNT(closed); i++) {
		uint32_t at = closed[i].address;
		buf_printf(to, "%s%u.%u.%u.%u/%d", i ? ", " : " ", at >> 24, at >> 16 & 255,
			   at >> 8 & 255, at & 255, __builtin_popcount(closed[i].mask));
	}
	buf_str(to, " }; }\n");
}
