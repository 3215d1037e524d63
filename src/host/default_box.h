/* default_box.h - the box 'default', which is always there: what it is made with, and how. */
#pragma once

struct err;
struct host;

/* Whether the options that are for the default box, and for boxes that ask for nothing, can be had: also
 * where there is such a box already. */
int default_box_check(const struct host *host, struct err *err);

/* Makes it, or starts it on its files, unless it runs. But where only templates can be used, it has to be
 * told which. */
int default_box_ensure(struct host *host, struct err *err);

/* The mode of its network; NULL: there is no such box. */
const char *default_box_mode(struct host *host);
