/* root.h - the file system of a box, put together by its first process. */
#pragma once

struct box_spec;
struct err;
struct inside;

/* Mounts everything and makes it the root; what was there before is gone. */
int root_enter(const struct box_spec *spec, const struct inside *inside, struct err *err);
