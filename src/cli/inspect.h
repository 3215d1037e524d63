/* inspect.h - what a box is, for people: the commands inspect, create and fork. */
#pragma once
#include <jansson.h>

struct ask;

/* A box that was just made: its id, addresses and token. With --json, all of it as it came. */
void inspect_made(const struct ask *ask, const json_t *box);

/* aio inspect: all that there is to know about a box. */
int inspect_box(struct ask *ask);
