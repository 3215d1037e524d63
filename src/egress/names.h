/* names.h - the addresses that stand for names: 198.18.0.0/15, which nobody has. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
	NAMES_NET = 0xc6120000, /* 198.18.0.0 */
	NAMES_BITS = 15,
	NAMES_SELF = NAMES_NET + 1, /* ours, in the box: its DNS server */
	NAMES_MAX = 16384,
};

struct names;

struct names *names_new(void);
void names_free(struct names *names);

/* The address that stands for a name (lower case), from now on; 0 when there are too many. */
uint32_t names_address(struct names *names, const char *name);

/* Copies the name that an address stands for. -1: for none. */
int names_find(struct names *names, uint32_t address, char *to, size_t room);
