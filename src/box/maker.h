/* maker.h - the processes that make boxes, and whose forks the boxes' servers are.
 *
 * They are started once, with the program loaded and nothing else: no secret, no environment. A box
 * costs a fork of one of them instead of a program's start, and shares its memory with all others. */
#pragma once
#include "box/inside.h"

/* The hidden command that they are: "make-boxes STATE FD". */
#define MAKER_COMMAND "make-boxes"

/* The descriptor that box_makers() had them hold. */
enum { MAKER_HOLD = 4 };

int maker_main(int argc, char **argv, inside_serve *serve);

struct box_spec;
struct err;

/* One request, with a socket for the answer. */
int maker_send(int fd, const struct box_spec *spec, int reply, struct err *err);
