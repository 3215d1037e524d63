/* web_keys.h - keys as pages see them: what an event of the keyboard says of one (key, code, keyCode). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum web_modifier { WEB_ALT = 1, WEB_CONTROL = 2, WEB_META = 4, WEB_SHIFT = 8 };

struct web_key {
	char key[24], code[24];
	int number;        /* keyCode */
	int location;      /* 1: left, 2: right, 3: keypad */
	unsigned modifier; /* that it is itself */
	bool shifted;      /* it is given by Shift and a key of the US layout */
	char text[8];      /* what it types; "": nothing */
};

/* The key of a name: those of desktop/keys.h. -1 with err: it is not one. */
int web_key_named(const char *name, struct web_key *ret, struct err *err);

/* The key of a character that the US layout has; false: it has none. */
bool web_key_of(uint32_t c, struct web_key *ret);

enum { WEB_KEYS_MAX = 10 };

/* "Control+Shift+A" as keys, in their order: how many, at most WEB_KEYS_MAX. 0 with err. */
size_t web_keys_parse(const char *text, struct web_key ret[WEB_KEYS_MAX], struct err *err);
