/* snapshot.h - what a page looks like to assistive technology, with its frames: share/browser/snapshot.js. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/wait.h"

struct err;
struct tab;

enum { SNAPSHOT_MAX = 1 << 20, SNAPSHOT_FRAMES_MAX = 50, SNAPSHOT_DEPTH_MAX = 6 };

struct ax_tree {
	struct buf text; /* lines of YAML; initialised by the caller */
	char *title;     /* of the page; the caller's to free */
	bool cut;        /* there is more */
	int frames;      /* how many have been read below the main one */
};

/* Of the page, or of the first element of a selector in its main frame. */
int snapshot_page(struct tab *tab, const char *selector, struct ax_tree *ret,
		  const struct wait *wait, struct err *err);
