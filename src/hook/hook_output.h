/* hook_output.h - what a hook prints, and what it has left in the background: line by line to the log, up
 * to a limit. It is read until all of them have closed it, so that none ends for want of a reader. */
#pragma once
#include <stddef.h>

struct err;
struct hook_output;
struct user;

/* *ret_fd is for the program; the caller closes it. NULL with err. */
struct hook_output *hook_output_open(const char *name, const struct user *user, int *ret_fd,
				     struct err *err);

/* The last line that was printed; "" where there is none. For when the program has ended: it takes in
 * what the pump has not read yet. */
void hook_output_words(struct hook_output *output, char *to, size_t room);

void hook_output_unref(struct hook_output *output); /* NULL is fine; the reading goes on */
