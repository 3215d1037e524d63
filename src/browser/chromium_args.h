/* chromium_args.h - the arguments that Chromium is started with. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct chromium_policy;
struct config;
struct err;

enum { CHROMIUM_ARGS = 64 };

struct chromium_args {
	struct arena *arena;
	char *list[CHROMIUM_ARGS + 1];
	size_t count;
};

/* Ignored where there are too many. */
void chromium_args_add(struct chromium_args *args, const char *arg);

/* All of them but the program. -1: BROWSER_EXTRA_ARGS would take away its sandbox or our hold on it, or
 * its sandbox cannot work. */
int chromium_args_fill(struct chromium_args *args, const struct config *config,
		       const struct chromium_policy *policy, const char *profile, bool as_root,
		       struct err *err);

/* The language of the browser's own windows. On Linux only LANGUAGE in its environment sets it; --lang does not. */
const char *chromium_args_language(const struct config *config,
				   const struct chromium_policy *policy);
