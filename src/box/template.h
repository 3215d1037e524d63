/* template.h - the file system that a box starts from.
 *
 * A template is a directory with a file `layers`, a line for each place that has layers of its own:
 *   PLACE LAYER…       the topmost layer first; relative to the template, or of this machine
 * such as "/ root" and "/usr hide/usr /usr". Without that file it is "/ root". */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/files.h"

struct err;
struct live_copy_users;
struct stat;

enum { TEMPLATE_PLACES = 4, TEMPLATE_LAYERS = 17 }; /* 16 of its own, and template_hide()'s */

struct template_place {
	char at[64]; /* "/", "/usr" … */
	char *layers[TEMPLATE_LAYERS];
	size_t count;
};

struct template
{
	struct template_place places[TEMPLATE_PLACES];
	size_t count;
};

int template_read(const char *dir, struct template *ret, struct err *err);
void template_done(struct template *template);

/* Where it shows the machine's own directory, hides what must be hidden of that today: a snapshot has it
 * as it was, and so may a template of the machine that has changed just now. *ret_hold, or -1, is to be
 * kept open as long as the template is used. state and python are those of template_machine(). */
int template_hide(struct template *template, const char *state, const char *python, int *ret_hold,
		  struct err *err);

/* Holds a template as long as the descriptor is open, in whichever process: it is not removed. */
int template_hold(const char *dir, struct err *err);

/* The template with these ids on disk (see ids.h): itself, or its copy, which is made when there is
 * none yet and kept in its directory. free() it. */
char *template_of(const char *dir, uint32_t owner, struct err *err);

/* Whether everyone may read it: boxes see nothing else of the machine's own directories. */
bool template_is_public(const struct stat *st);

/* Makes the template of the machine's own directories, or leaves the one that is there and still
 * right, and removes those that are no longer and that nobody holds. *ret is its path, below
 * `state`. `python` is where the
 * product's Python environment is on the machine, or NULL: what is installed in it wants to find it
 * there. */
int template_machine(const char *state, const char *python, char **ret, struct err *err);

/* Whether one was made for any state of the machine: the one for today's is most likely there too. */
bool template_known(const char *state);

/* Makes a template in `dir`, which is not there yet, from another and what was written over it. users: of
 * what was written, see live_copy.h; keep: what of it is copied, NULL for all. */
int template_snapshot(const char *base, const char *written, const struct live_copy_users *users,
		      files_keep *keep, const char *dir, struct err *err);
