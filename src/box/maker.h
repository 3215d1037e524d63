/* maker.h - the process that makes boxes, and whose forks the boxes' servers are.
 *
 * It is started once, with the program loaded and nothing else: no secret, no environment. It keeps a few
 * forks of itself ready, each of which reads one request, makes that box and ends. So a box costs forks
 * instead of a program's start, shares the maker's memory with all others, and has nothing of them in it. */
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
