#include "notebook/notebooks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "code/kernels.h"

struct notebook_row {
	struct notebook_row *next;
	uint64_t number; /* of those that were ever added */
	char id[NOTEBOOKS_ID + 1];
	char *path, *name, *type, *kernel;
	bool own;
};

static struct {
	pthread_mutex_t lock; /* nothing else is taken under it */
	struct notebook_row *first;
	size_t count;
	uint64_t added;
} notebooks = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void make_id(char to[NOTEBOOKS_ID + 1])
{
	unsigned char bytes[16] = { 0 };
	(void)!getrandom(bytes, sizeof bytes, 0);
	bytes[6] = (unsigned char)((bytes[6] & 15) | 64); /* a random UUID */
	bytes[8] = (unsigned char)((bytes[8] & 63) | 128);
	for (size_t i = 0, at = 0; i < sizeof bytes; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			to[at++] = '-';
		at += (size_t)snprintf(to + at, 3, "%02x", bytes[i]);
	}
}

static void set(char **member, const char *value)
{
	if (!value)
		return;
	free(*member);
	*member = xstrdup(value);
}

static void row_set(struct notebook_row *row, const struct notebook *to)
{
	set(&row->path, to->path);
	set(&row->name, to->name);
	set(&row->type, to->type);
	if (to->kernel)
		row->own = to->own;
	set(&row->kernel, to->kernel);
}

/* With the lock: takes it out, and frees it. */
static void drop(struct notebook_row **at)
{
	struct notebook_row *row = *at;
	*at = row->next;
	notebooks.count--;
	free(row->path);
	free(row->name);
	free(row->type);
	free(row->kernel);
	free(row);
}

static bool is_listed(const char *kernel, const struct list *kernels)
{
	const struct kernels_info *infos = kernels->items;
	for (size_t i = 0; i < kernels->count; i++)
		if (!strcmp(infos[i].id, kernel))
			return true;
	return false;
}

/* Removes those whose kernels are gone, and locks. */
static void lock_current(struct arena *arena)
{
	/* The kernel of a row that is added meanwhile may not be listed yet. */
	pthread_mutex_lock(&notebooks.lock);
	uint64_t known = notebooks.added;
	pthread_mutex_unlock(&notebooks.lock);
	struct list kernels = kernels_list(arena);
	pthread_mutex_lock(&notebooks.lock);
	for (struct notebook_row **at = &notebooks.first; *at;)
		if ((*at)->number <= known && !is_listed((*at)->kernel, &kernels))
			drop(at);
		else
			at = &(*at)->next;
}

static struct notebook copy(const struct notebook_row *row, struct arena *arena)
{
	return (struct notebook){ arena_strdup(arena, row->id),     arena_strdup(arena, row->path),
				  arena_strdup(arena, row->name),   arena_strdup(arena, row->type),
				  arena_strdup(arena, row->kernel), row->own };
}

struct list notebooks_list(struct arena *arena)
{
	lock_current(arena);
	struct notebook *all = arena_alloc(arena, (notebooks.count + 1) * sizeof *all);
	size_t count = 0;
	for (const struct notebook_row *row = notebooks.first; row; row = row->next)
		all[count++] = copy(row, arena);
	pthread_mutex_unlock(&notebooks.lock);
	return (struct list){ count, all };
}

int notebooks_find(const char *id, const char *path, struct arena *arena, struct notebook *ret,
		   struct err *err)
{
	lock_current(arena);
	const struct notebook_row *row = notebooks.first;
	while (row && strcmp(id ? row->id : row->path, id ? id : path) != 0)
		row = row->next;
	if (row)
		*ret = copy(row, arena);
	pthread_mutex_unlock(&notebooks.lock);
	return row ? 0
		   : err_set(err, ERR_NOT_FOUND, "there is no notebook session '%.80s'",
			     id ? id : path);
}

int notebooks_add(const struct notebook *notebook, struct arena *arena, const char **ret_id,
		  struct err *err)
{
	struct notebook_row *row = xcalloc(1, sizeof *row);
	make_id(row->id);
	row_set(row, notebook);
	*ret_id = arena_strdup(arena, row->id);
	lock_current(arena);
	row->next = notebooks.first;
	notebooks.first = row;
	row->number = ++notebooks.added;
	bool full = ++notebooks.count > NOTEBOOKS_MAX;
	if (full)
		drop(&notebooks.first);
	pthread_mutex_unlock(&notebooks.lock);
	return full ? err_set(err, ERR_LIMIT, "there are %d notebook sessions: close one",
			      NOTEBOOKS_MAX)
		    : 0;
}

int notebooks_change(const struct notebook *notebook, struct err *err)
{
	pthread_mutex_lock(&notebooks.lock);
	struct notebook_row *row = notebooks.first;
	while (row && strcmp(row->id, notebook->id) != 0)
		row = row->next;
	if (row)
		row_set(row, notebook);
	pthread_mutex_unlock(&notebooks.lock);
	return row ? 0
		   : err_set(err, ERR_NOT_FOUND, "there is no notebook session '%.80s'",
			     notebook->id);
}

void notebooks_remove(const char *id)
{
	pthread_mutex_lock(&notebooks.lock);
	struct notebook_row **at = &notebooks.first;
	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	if (*at)
		drop(at);
	pthread_mutex_unlock(&notebooks.lock);
}
