/* seccomp.h - the system calls that nothing in a box may make. */
#pragma once

struct err;

/* Loads the filter for this process and all that it starts. Needs CAP_SYS_ADMIN in the box and leaves
 * no_new_privs off, so that sudo works. */
int seccomp_load(struct err *err);

/* Loads another one beside it: this process, and what it forks, will run no program and no code that it
 * does not have yet. */
int seccomp_seal(struct err *err);

/* Makes both ready, for this process and those it forks. */
void seccomp_prepare(void);
