/* file_history.h - what files were before the editor changed them, for undo_edit.
 *
 * In memory: it ends with the server, which cannot know what happened to a file while it did not run.
 * The last 10 changes of a file are kept, and 64 MiB of all: the oldest go first. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct file_past {
	struct file_past *next; /* the history's own */
	char *path, *bytes;     /* bytes: as they were in the file; NULL: there was no file */
	size_t len;
	uint64_t became; /* of what the change made of it: file_history_print() */
};

/* A fingerprint of a content, to see that nobody else has changed it since. */
uint64_t file_history_print(const void *bytes, size_t len);

/* Remembers, taking over the bytes, which may be NULL. What is too large to remember makes all before
 * it forgotten, too: that cannot be undone without it. */
void file_history_add(const char *path, char *bytes, size_t len, uint64_t became);

/* Takes the last one out; NULL when there is none. Put it back when it could not be undone. */
struct file_past *file_history_take(const char *path);
void file_history_put_back(struct file_past *past);
void file_history_free(struct file_past *past); /* NULL is fine */
