/* prompt.h - texts that people choose to begin a conversation with. */
#pragma once
#include <stddef.h>

struct err;
struct exchange;

struct prompt_argument {
	const char *name, *help;
	int required;
};

struct prompt {
	const char *name, *title, *help;
	struct prompt_argument arguments[4];
	/* With each {name} replaced by an argument, and what stands between "[[" and "]]" left out when
	 * an argument in it is absent. */
	const char *text;
	/* Instead of text: writes the member "messages", or after setting ex->result_type all others. */
	int (*write)(struct exchange *ex, struct err *err);
};

struct prompt_table {
	const struct prompt *prompts;
	size_t count;
};
extern const struct prompt_table *prompt_extra; /* of a program's own */

/* The methods prompts/list and prompts/get. */
int prompt_list(struct exchange *ex, struct err *err);
int prompt_get(struct exchange *ex, struct err *err);

/* Writes one message of text. */
void prompt_put(struct exchange *ex, const char *text, size_t len);

/* Sets *ret to an argument's value, NULL when it is absent. */
void prompt_argument(const struct exchange *ex, const char *name, const char **ret);
