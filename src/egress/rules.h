/* rules.h - which names a box may reach, and at which addresses. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct rules;

/* names: separated by commas, each a host name, *.DOMAIN for all below it, or * for all; with :PORT,
 * for that port alone. nets: networks (10.0.0.0/8) that may be reached though they are not global;
 * NULL: none. NULL with err when one is malformed. */
struct rules *rules_new(const char *names, const char *nets, struct err *err);
void rules_free(struct rules *rules);

/* port 0: any. */
bool rules_allow(const struct rules *rules, const char *name, unsigned port);

/* Whether an address (in host order) is one of the wide world, or of nets. */
bool rules_address(const struct rules *rules, uint32_t address);

/* The networks that are not public, one by one, as 10.0.0.0/8. */
size_t rules_closed_count(void);
void rules_closed(size_t index, char *to, size_t room);
