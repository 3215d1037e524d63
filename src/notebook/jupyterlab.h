/* jupyterlab.h - JupyterLab, for people: a service that has its page, its settings and the workspace's files.
 *
 * It has no kernels: those are the sessions of code/kernels.h, which Jupyter's own addresses lead to (api/
 * notebook_kernels.c). So it can be stopped, and killed, at any time. */
#pragma once
#include "base/wait.h"

struct err;
struct server;
struct service_run;

void jupyterlab_setup(struct server *server);

/* A lease of it, started if need be; to be given back by service_release(). */
struct service_run *jupyterlab_use(const struct wait *wait, struct err *err);

/* A stream to one that is leased, on which it speaks HTTP, at BASE of share/notebook/lab.py. -1 with err. */
const char *jupyterlab_socket(void); /* for messages */
int jupyterlab_connect(const struct server *server, const struct wait *wait, struct err *err);
