/* kernelspec.h - the kernels that are installed: how each is started, and what it speaks.
 *
 * "python3" is the product's own Python; "bash" is the product's, too, where no other is. Others are found where Jupyter looks for them. The names
 * python3.X stand for the interpreter of that version, where one with ipykernel is there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/desc.h"

struct arena;
struct err;
struct tools_where;

struct kernelspec {
	const char *name, *display, *language;
	struct list argv;   /* of const char *; {connection_file} is to be replaced */
	struct list env;    /* of struct pair */
	bool by_message;    /* it is interrupted by a message and not by a signal */
	bool python;        /* it is an ipykernel: argv[0] is its Python, and can be forked */
	const char *notice; /* why it stands in for the one that was asked for; or NULL */
};

/* The name that a kernel is known by: "python" is python3. */
const char *kernelspec_name(const char *name);

/* All of them, our own first; in the arena. */
struct list kernelspec_list(const struct tools_where *where, struct arena *arena);

/* The one with a name (NULL or empty: the default, which PYTHON_VERSION may choose). python3 stands in for
 * a python3.X that is not there, with a notice. NULL with ERR_BAD_REQUEST and what there is. */
const struct kernelspec *kernelspec_find(const struct tools_where *where, const char *name,
					 struct arena *arena, struct err *err);

/* The first one that speaks a language; NULL where there is none. */
const struct kernelspec *kernelspec_for(const struct tools_where *where, const char *language,
					struct arena *arena);
