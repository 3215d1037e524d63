/* template.h - the file system that a box starts from.
 *
 * A template is a directory with a file `layers`, a line for each place that has layers of its own:
 *   PLACE LAYER…       the topmost layer first; relative to the template, or of this machine
 * such as "/ root" and "/usr hide/usr /usr". Without that file it is "/ root". */
#pragma once
#include <stddef.h>

struct err;

enum { TEMPLATE_PLACES = 4, TEMPLATE_LAYERS = 16 };

struct template_place {
	char at[64]; /* "/", "/usr" … */
	char *layers[TEMPLATE_LAYERS];
	size_t count;
};

struct template {
	struct template_place places[TEMPLATE_PLACES];
	size_t count;
};

int template_read(const char *dir, struct template *ret, struct err *err);
void template_done(struct template *template);

/* Makes the template of the machine's own directories, or leaves the one that is there and still
 * right. *ret is its path, below `state`. */
int template_machine(const char *state, char **ret, struct err *err);
