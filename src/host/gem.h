/* gem.h - the user that a box works as, in a root file system that came from elsewhere. */
#pragma once

struct err;

/* Adds gem (1000, /home/gem, sudo without a password) to this process's root, unless there is one. */
int gem_add(struct err *err);
