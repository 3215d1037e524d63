/* file_types.h - kinds of files by their names: "py" is *.py and *.pyi. */
#pragma once

/* The patterns of a kind, separated by spaces; NULL for one that is not known. */
const char *file_types_find(const char *name);
