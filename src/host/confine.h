/* confine.h - a process for reading what others made. Whoever takes it over by what it reads has one
 * directory, no program, no process, no network, and no privilege but over the files there. */
#pragma once
#include <sys/types.h>

struct err;

/* A directory as a tree of its own, from which no ".." leads up; nothing in it can be run. */
int confine_tree(const char *dir, struct err *err);

/* fork(), whose child is in new namespaces of every kind, as root of the templates' ids, and ends with
 * its parent. */
pid_t confine_fork(struct err *err);

/* For the child: makes a tree its root, closes all descriptors from 3 on but `kept`, and gives up
 * whatever unpacking does not need. */
int confine_enter(int tree, const int *kept, size_t count, struct err *err);

/* Goes to another tree, as its root: what links lead to is there. */
int confine_move(int tree, struct err *err);
