/* rules.h - which names a box may reach, and at which addresses. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct rules;

/* names: separated by commas, each a host name, *.DOMAIN for all below it, or * for all; with :PORT,
 * for that port alone. nets: networks (10.0.0.0/8) that may be reached though they are not global;
 * NULL: none. NULL with err when one is malformed. */
struct rules *rules_new(const char *names, const char *nets, struct err *err);
void rules_free(struct rules *rules);

/* Whether a text is what one of these names must be; ports are checked by rules_new(), which takes more
 * than can be a host name, because boxes of earlier releases have it. */
bool rules_is_name(const char *text, size_t len);

/* port 0: any. */
bool rules_allow(const struct rules *rules, const char *name, unsigned port);

/* Whether an address (in host order) is one of nets; of the wide world, or of nets. */
bool rules_opened(const struct rules *rules, uint32_t address);
bool rules_address(const struct rules *rules, uint32_t address);

/* For nftables: the sets "open", of nets (NULL: none), and "closed", of all that is not public. */
void rules_sets(const char *nets, struct buf *to);
