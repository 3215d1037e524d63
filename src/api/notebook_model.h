/* notebook_model.h - kernels and sessions as Jupyter's own API has them: what its routes share. */
#pragma once
#include "base/desc.h"

struct arena;
struct call;
struct err;
struct jw;

/* -1: DISABLE_JUPYTER. */
int notebook_allowed(struct err *err);

/* A new kernel of that name (NULL: the default), in the directory of a file of the workspace (NULL: its own), and
 * with that id (NULL: a new one). The id is in the arena. */
int notebook_start_kernel(struct call *call, const char *name, const char *path, const char *id,
			  const char **ret_id, struct err *err);

/* The body of a request, which JupyterLab sends as text/plain: an object, whose fields that are wrong count as absent.
 * An empty one has none. -1: it is something else. */
struct notebook_body {
	const char *id; /* of the path; NULL where that has none */
	struct text body;
};
extern const struct schema notebook_body_schema, notebook_change_schema;
int notebook_body(struct call *call, const struct notebook_body *in, const struct schema *schema,
		  void *to, struct err *err);

/* Writes the kernel of that id. -1: there is none. */
int notebook_write_kernel(struct call *call, const char *id, struct jw *jw, struct err *err);

/* Answers with what was written, and has done with it; status 201 with a Location below /jupyter/api. */
int notebook_reply(struct call *call, struct jw *jw, const char *location, struct err *err);
int notebook_reply_nothing(struct call *call, struct err *err);

/* Where the sandbox's pages are, as the caller knows them: "" or what a reverse proxy says is before them. */
const char *notebook_prefix(const struct call *call);
