/* source.h - the files of an image. Their names were chosen by the image. */
#pragma once

struct err;

/* Opens a regular file below a directory, over no link that leads out of it. */
int source_open(int dir, const char *name, struct err *err);

/* The same for a process that cannot reach the directory: it asks one that can, through a pair of
 * SOCK_SEQPACKET, which serves it until the other end is closed. */
int source_ask(int socket, const char *name, struct err *err);
void source_serve(int socket, int dir);
