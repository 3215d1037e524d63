/* notebooks.h - which notebook, console or file has which kernel: Jupyter's "sessions". A kernel is a session of
 * code/kernels.h, by its id; one that has ended takes its notebooks' rows along. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/desc.h"

struct arena;
struct err;

enum { NOTEBOOKS_MAX = 1000, NOTEBOOKS_ID = 36 };

struct notebook {
	const char *id;
	const char *path, *name,
		*type; /* as its client calls it: "a/b.ipynb", "b.ipynb", "notebook" */
	const char *kernel;
	bool own; /* the kernel was started for it, and not by somebody else before */
};

/* All of them, in the arena. */
struct list notebooks_list(struct arena *arena);

/* The one with an id, or else with a path. In the arena; -1 with err: there is none. */
int notebooks_find(const char *id, const char *path, struct arena *arena, struct notebook *ret,
		   struct err *err);

/* Adds one with a new id; or changes the one with that id, where a NULL stays as it is. */
int notebooks_add(const struct notebook *notebook, struct arena *arena, const char **ret_id,
		  struct err *err);
int notebooks_change(const struct notebook *notebook, struct err *err);

/* Removes it; its kernel goes on. */
void notebooks_remove(const char *id);
