/* packages.h - the packages that Python and Node.js of the sandbox find. */
#pragma once
#include "net/route.h"

struct arena;
struct tools_where;

struct package {
	const char *name, *version;
};

/* The packages (struct package) of some node_modules directories, as the user sees them. */
int packages_of(struct arena *arena, const struct tools_where *where, const char *const *dirs,
		size_t count, struct list *ret, struct err *err);

/* The node_modules directories of `npm install -g`: how many, at most PACKAGES_DIRS_MAX. */
enum { PACKAGES_DIRS_MAX = 16 };
size_t packages_global_dirs(struct arena *arena, const struct tools_where *where,
			    const char *dirs[PACKAGES_DIRS_MAX]);

handler packages_python, packages_nodejs;
extern const struct field packages_data; /* what both answer */
