/* rule.h - which URLs a mapping, or a pattern of hosts, is about. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

struct err;

enum { RULE_TEXT_MAX = 2000 };

/* What is asked for. */
struct rule_url {
	const char *scheme; /* "http", "https"; NULL: a tunnel, which may be for either */
	const char *host;   /* as url_host_split() has it */
	int port;
	const char *path; /* with its query; NULL: unknown, as in a tunnel */
};

/* "[protocol://]host[:port][/path]" to "[host:]port[/path]". */
struct rule_mapping {
	char *source, *target;       /* as they were given */
	char scheme[6];              /* "": any */
	char host[URL_HOST_MAX + 1]; /* with '*' for any characters */
	int port;                    /* 0: any */
	char *path;                  /* "/" and more, without a '*' and slash at its end */
	char to_host[URL_HOST_MAX + 1];
	int to_port;
	char *to_path; /* in the place of path; NULL: the path stays */
};

/* Takes them apart; free with rule_mapping_done(). -1 with ERR_INVALID, setting nothing. */
int rule_mapping_parse(const char *source, const char *target, struct rule_mapping *ret,
		       struct err *err);
void rule_mapping_done(struct rule_mapping *mapping);

/* Whether they are for the same URLs: the one takes the place of the other. */
bool rule_mapping_same(const struct rule_mapping *a, const struct rule_mapping *b);

/* The one that is most specific: by host, then port, protocol and path. NULL: none is about the URL. */
const struct rule_mapping *rule_mapping_find(const struct rule_mapping *mappings, size_t count,
					     const struct rule_url *url);

/* One that would be about the URL, had it a path that can be seen; NULL: none. */
const struct rule_mapping *rule_mapping_missed(const struct rule_mapping *mappings, size_t count,
					       const struct rule_url *url);

/* Where the path leads: to be freed. */
char *rule_mapping_path(const struct rule_mapping *mapping, const char *path);

/* "host", ".host" (and all below), "*.host" (all below), any other name with '*', an address, or a network,
 * "10.0.0.0/8"; but for a network, ":port" may follow. */
struct rule_pattern {
	char *text;                  /* as it was given */
	char host[URL_HOST_MAX + 1]; /* with '*' for any characters */
	bool below;                  /* all names below it, too */
	int port;                    /* 0: any */
	int bits;                    /* of a network; -1: it is none */
	int family;                  /* of its address */
	uint8_t address[16];
};
int rule_pattern_parse(const char *text, struct rule_pattern *ret, struct err *err);
void rule_pattern_done(struct rule_pattern *pattern);

/* The first that the host belongs to; NULL: none. A name never belongs to a network: it is not looked up. */
const struct rule_pattern *rule_pattern_find(const struct rule_pattern *patterns, size_t count,
					     const char *host, int port);

/* Goes through a list between commas or spaces: NULL after the last, else the item, of *ret_len bytes. */
const char *rule_list_next(const char **at, size_t *ret_len);
