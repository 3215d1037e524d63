/* seccomp.h - the system calls that nothing in a box may make. */
#pragma once

struct err;

/* Loads the filter for this process and all that it starts. Needs CAP_SYS_ADMIN in the box and leaves
 * no_new_privs off, so that sudo works. */
int seccomp_load(struct err *err);

/* Loads another one beside it: this process, and what it forks, will run no program and no code that it
 * does not have yet. */
int seccomp_seal(struct err *err);

/* A second filter, for a process that works alone on what it has: it can start neither a program nor a
 * process or thread, open no socket, and leave neither its group nor its parent. Needs no_new_privs. */
int seccomp_load_alone(struct err *err);

/* Makes the first two ready, for this process and those it forks. */
void seccomp_prepare(void);
