/* fit.h - whether a root file system that came from elsewhere has what a box needs. */
#pragma once

struct err;

/* Looks at this process's root: all that runs in a box is started by bash. */
int fit_check(struct err *err);
