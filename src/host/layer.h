/* layer.h - what the name of an archive's entry means. The names are hostile; this is pure. */
#pragma once
#include <limits.h>
#include <stdbool.h>

struct err;

enum { LAYER_DEPTH_MAX = 128 };

enum layer_kind {
	LAYER_NOTHING,  /* the root itself, or a mark without a meaning here */
	LAYER_FILE,     /* a file, directory or link at the path */
	LAYER_WHITEOUT, /* ".wh.NAME": the path is not there, whatever layers below have */
	LAYER_OPAQUE,   /* ".wh..wh..opq": the directory at the path has nothing of layers below */
};

/* Cleans a name to a path below the root: names joined by single slashes, none of them "." or "..";
 * "" is the root. Refuses what leads upward, is too long or too deep. */
int layer_path(const char *name, char to[PATH_MAX], struct err *err);

/* The same, and what it stands for: in an archive that is no layer, always a file. */
int layer_entry(const char *name, bool layer, char to[PATH_MAX], enum layer_kind *ret,
		struct err *err);
