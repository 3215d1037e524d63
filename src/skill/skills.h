/* skills.h - the skills that are registered: the entries of one directory, so a listing of it is the
 * registry, and every change is one rename.
 *
 * An entry is a skill's own directory, or a symbolic link to one elsewhere. Names that begin with a
 * dot are work in progress. All of it is done with the sandbox user's rights. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/desc.h"

struct arena;
struct call;
struct err;

enum { SKILLS_MAX = 1000, SKILL_FILE_MAX = 1 << 20 };

struct skill {
	const char *name, *path;
	json_t *metadata;                /* front matter; lives as long as the arena */
	struct list dependency_commands; /* for who registers it: not known here */
};

/* All, by name. */
int skills_list(struct call *call, struct list *ret, struct err *err);

/* One, with what its SKILL.md says below the front matter (ret_content may be NULL). */
int skills_find(struct call *call, const char *name, struct skill *ret, struct text *ret_content,
		struct err *err);

/* Registers the skill in an existing directory, or those in its subdirectories: all or none. name is
 * for one alone, and may be NULL. A skill of the same name that was registered likewise is replaced. */
int skills_add_dir(struct call *call, const char *path, const char *name, struct list *ret,
		   struct err *err);

/* Unpacks an archive as a new directory of `path` (NULL: where the skills are) and registers what is
 * in it. The directory is called name, or else what the skill or the archive is called. */
int skills_add_archive(struct call *call, const struct upload *file, const char *path,
		       const char *name, struct list *ret, struct err *err);

/* Removes a skill. Its files go too where they are among the registered skills; a directory elsewhere
 * stays as it is. */
int skills_remove(struct call *call, const char *name, struct skill *ret, struct err *err);
