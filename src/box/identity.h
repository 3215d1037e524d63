/* identity.h - by what a process is known again, after its number may have gone to another. */
#pragma once
#include <sys/types.h>

struct box_proc;
struct err;

/* Of this start of the machine; "": unknown. */
const char *identity_boot(void);

int identity_read(pid_t pid, struct box_proc *ret, struct err *err);
