#include "fs/file_history.h"

#include <pthread.h>
#include <string.h>

#include "base/own.h"

enum { PER_FILE = 10, CHANGES_MAX = 4096, BYTES_MAX = 64 << 20, LARGEST = BYTES_MAX / 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_past *newest; /* and then back in time */

uint64_t file_history_print(const void *bytes, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325 ^ len;
	for (const unsigned char *at = bytes; len--; at++)
		hash = (hash ^ *at) * 0x100000001b3;
	return hash;
}

void file_history_free(struct file_past *past)
{
	if (!past)
		return;
	free(past->path);
	free(past->bytes);
	free(past);
}

/* Forgets what is too much: with the lock held. */
static void trim(const char *path, size_t keep)
{
	size_t bytes = 0, count = 0, of_file = 0;
	for (struct file_past **at = &newest; *at;) {
		struct file_past *past = *at;
		bool same = !strcmp(past->path, path);
		bytes += past->len;
		of_file += same;
		if (++count > CHANGES_MAX || bytes > BYTES_MAX || (same && of_file > keep)) {
			bytes -= past->len;
			*at = past->next;
			file_history_free(past);
		} else {
			at = &past->next;
		}
	}
}

void file_history_put_back(struct file_past *past)
{
	pthread_mutex_lock(&lock);
	past->next = newest;
	newest = past;
	trim(past->path, PER_FILE);
	pthread_mutex_unlock(&lock);
}

void file_history_add(const char *path, char *bytes, size_t len, uint64_t became)
{
	if (len <= LARGEST) {
		struct file_past *past = xcalloc(1, sizeof *past);
		*past = (struct file_past){ NULL, xstrdup(path), bytes, len, became };
		file_history_put_back(past);
		return;
	}
	free(bytes);
	pthread_mutex_lock(&lock);
	trim(path, 0);
	pthread_mutex_unlock(&lock);
}

struct file_past *file_history_take(const char *path)
{
	pthread_mutex_lock(&lock);
	struct file_past **at = &newest;
	while (*at && strcmp((*at)->path, path) != 0)
		at = &(*at)->next;
	struct file_past *past = *at;
	if (past)
		*at = past->next;
	pthread_mutex_unlock(&lock);
	return past;
}
