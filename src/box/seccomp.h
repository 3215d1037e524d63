/* seccomp.h - the system calls that nothing in a box may make. */
#pragma once

struct err;

/* Loads the filter for this process and all that it starts. Needs CAP_SYS_ADMIN in the box and leaves
 * no_new_privs off, so that sudo works. */
int seccomp_load(struct err *err);

/* Makes the filter ready, for this process and those it forks. */
void seccomp_prepare(void);
