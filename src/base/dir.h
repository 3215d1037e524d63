/* dir.h - reading directories. */
#pragma once
#include <dirent.h>

/* Opens one below a directory's descriptor, "." being that one itself, with more flags of openat(). NULL
 * with errno, and no descriptor is left open then. */
DIR *dir_open_at(int at, const char *path, int flags);
