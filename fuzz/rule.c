/* A mapping, a pattern and a URL, between NULs: where the mapping leads is a clean path of a clean host, and taking it
 * apart again says the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/url.h"
#include "outbound/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The next text of the input. */
static char *next(const char **at, const char *end)
{
	size_t len = strnlen(*at, (size_t)(end - *at));
	char *text = xstrndup(*at, len);
	*at += len + (*at + len < end);
	return text;
}

static void follow(const struct rule_mapping *mapping, const struct rule_url *url)
{
	const struct rule_mapping *found = rule_mapping_find(mapping, 1, url);
	const struct rule_mapping *missed = rule_mapping_missed(mapping, 1, url);
	must(!found || !missed);
	auto_free char *path = found && url->path ? rule_mapping_path(found, url->path) : NULL;
	must(!path || *path == '/');
	for (const char *c = path; c && *c; c++)
		must(*c > ' ' && *c < 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	const char *at = (const char *)input, *end = at + size;
	auto_free char *source = next(&at, end), *target = next(&at, end);
	auto_free char *pattern = next(&at, end), *text = next(&at, end);
	struct rule_mapping mapping = { 0 }, again = { 0 };
	struct rule_pattern one = { 0 };
	struct url_parts url;
	bool asked = url_split(text, &url, NULL) == 0;
	const struct rule_url whole = { url.secure ? "https" : "http", url.host, url.port,
					url.target };
	const struct rule_url tunnel = { NULL, url.host, url.port, NULL };
	if (rule_mapping_parse(source, target, &mapping, NULL) == 0) {
		must(mapping.to_port > 0 && mapping.to_port < 65536 && *mapping.path == '/');
		must(rule_mapping_parse(source, target, &again, NULL) == 0);
		must(rule_mapping_same(&mapping, &again));
		rule_mapping_done(&again);
		if (asked) {
			follow(&mapping, &whole);
			follow(&mapping, &tunnel);
		}
		rule_mapping_done(&mapping);
	}
	if (rule_pattern_parse(pattern, &one, NULL) == 0) {
		if (asked)
			(void)rule_pattern_find(&one, 1, url.host, url.port);
		rule_pattern_done(&one);
	}
	return 0;
}
