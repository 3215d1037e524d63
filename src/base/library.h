/* library.h - a shared library that few requests need, loaded when the first one does.
 *
 *	static int (*parse)(const char *);
 *	static const struct library_symbol symbols[] = { { "foo_parse", &parse } };
 *	static struct library foo = LIBRARY("libfoo.so.2", "libfoo2", symbols);
 *	…
 *	if (library_load(&foo, err) == 0)
 *		parse(text);
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct err;

struct library_symbol {
	const char *name;
	void *to; /* the address of a pointer to a function */
};

struct library {
	const char *file, *package; /* what to install when it is missing */
	const struct library_symbol *symbols;
	size_t count;
	pthread_mutex_t lock;
	bool loaded;
};

#define LIBRARY(so, debian, table)                                                            \
	{                                                                                     \
		.file = (so), .package = (debian), .symbols = (table), .count = COUNT(table), \
		.lock = PTHREAD_MUTEX_INITIALIZER                                             \
	}

/* Loads it, once. ERR_UNAVAILABLE, saying what to install, where it is missing. */
int library_load(struct library *library, struct err *err);
