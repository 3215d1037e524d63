#include "fs/watch_tree.h"

#include <stdint.h>
#include <string.h>

#include "base/own.h"

enum { BUCKETS = 4096 };

struct watch_dir {
	int wd; /* -1: not watched any more */
	uint64_t id;
	char *name;
	struct watch_dir *parent, *children, *next, *previous;
	struct watch_dir *next_wd, *next_name; /* in their lists */
	struct watch_dir *next_todo, *previous_todo;
	struct todo *todo; /* the list it is in */
};

/* Newest last. */
struct todo {
	struct watch_dir *first, *last;
	size_t count;
};

struct watch_tree_seen {
	struct watch_tree_seen *next;
	uint64_t dir;
	char name[];
};

struct watch_tree {
	struct watch_dir *root, *by_wd[BUCKETS], *by_name[BUCKETS];
	struct todo fresh, later;
	struct watch_tree_seen *seen[BUCKETS];
	size_t count, seen_count;
	uint64_t next_id;
};

struct watch_tree *watch_tree_new(void)
{
	return xcalloc(1, sizeof(struct watch_tree));
}

void watch_tree_free(struct watch_tree *tree)
{
	int wd;
	while (tree && tree->root)
		(void)watch_tree_prune(tree, tree->root, &wd);
	if (tree)
		watch_tree_unsee_all(tree);
	free(tree);
}

size_t watch_tree_count(const struct watch_tree *tree)
{
	return tree ? tree->count : 0;
}

struct watch_dir *watch_tree_root(const struct watch_tree *tree)
{
	return tree->root;
}

/* ---- finding ---- */

static size_t hash(uint64_t dir, const char *name)
{
	uint64_t h = 14695981039346656037u ^ dir * 2654435761u;
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211u;
	return (h ^ h >> 32) % BUCKETS;
}

struct watch_dir *watch_tree_find(const struct watch_tree *tree, int wd)
{
	struct watch_dir *dir = wd < 0 ? NULL : tree->by_wd[(unsigned)wd % BUCKETS];
	while (dir && dir->wd != wd)
		dir = dir->next_wd;
	return dir;
}

struct watch_dir *watch_tree_child(const struct watch_tree *tree, const struct watch_dir *parent,
				   const char *name)
{
	if (!parent)
		return tree->root;
	struct watch_dir *dir = tree->by_name[hash(parent->id, name)];
	while (dir && (dir->parent != parent || strcmp(dir->name, name) != 0))
		dir = dir->next_name;
	return dir;
}

/* ---- the lists ---- */

static void link_name(struct watch_tree *tree, struct watch_dir *dir, struct watch_dir *parent,
		      const char *name)
{
	dir->parent = parent;
	dir->name = xstrdup(name);
	if (!parent) {
		tree->root = dir;
		return;
	}
	dir->next = parent->children;
	dir->previous = NULL;
	if (dir->next)
		dir->next->previous = dir;
	parent->children = dir;
	struct watch_dir **bucket = &tree->by_name[hash(parent->id, name)];
	dir->next_name = *bucket;
	*bucket = dir;
}

static void unlink_name(struct watch_tree *tree, struct watch_dir *dir)
{
	if (!dir->parent) {
		tree->root = NULL;
	} else {
		struct watch_dir **at = &tree->by_name[hash(dir->parent->id, dir->name)];
		while (*at != dir)
			at = &(*at)->next_name;
		*at = dir->next_name;
		if (dir->previous)
			dir->previous->next = dir->next;
		else
			dir->parent->children = dir->next;
		if (dir->next)
			dir->next->previous = dir->previous;
	}
	free(TAKE(dir->name));
}

static void todo_remove(struct watch_dir *dir)
{
	struct todo *todo = dir->todo;
	if (!todo)
		return;
	if (dir->previous_todo)
		dir->previous_todo->next_todo = dir->next_todo;
	else
		todo->first = dir->next_todo;
	if (dir->next_todo)
		dir->next_todo->previous_todo = dir->previous_todo;
	else
		todo->last = dir->previous_todo;
	todo->count--;
	dir->todo = NULL;
}

static void todo_add(struct todo *todo, struct watch_dir *dir)
{
	todo_remove(dir);
	dir->todo = todo;
	dir->next_todo = NULL;
	dir->previous_todo = todo->last;
	if (todo->last)
		todo->last->next_todo = dir;
	else
		todo->first = dir;
	todo->last = dir;
	todo->count++;
}

static struct watch_dir *todo_take(struct todo *todo)
{
	struct watch_dir *dir = todo->first;
	if (dir)
		todo_remove(dir);
	return dir;
}

struct watch_dir *watch_tree_add(struct watch_tree *tree, struct watch_dir *parent,
				 const char *name, int wd)
{
	struct watch_dir *dir = xcalloc(1, sizeof *dir);
	dir->id = ++tree->next_id;
	dir->wd = -1;
	link_name(tree, dir, parent, name);
	tree->count++;
	if (wd >= 0)
		watch_tree_watch(tree, dir, wd);
	return dir;
}

bool watch_tree_watched(const struct watch_dir *dir)
{
	return dir->wd >= 0;
}

void watch_tree_watch(struct watch_tree *tree, struct watch_dir *dir, int wd)
{
	struct watch_dir **bucket = &tree->by_wd[(unsigned)wd % BUCKETS];
	dir->wd = wd;
	dir->next_wd = *bucket;
	*bucket = dir;
	todo_add(&tree->fresh, dir);
}

bool watch_tree_below(const struct watch_dir *dir, const struct watch_dir *top)
{
	while (dir && dir != top)
		dir = dir->parent;
	return dir;
}

bool watch_tree_move(struct watch_tree *tree, struct watch_dir *dir, struct watch_dir *to,
		     const char *name)
{
	if (watch_tree_below(to, dir))
		return false;
	unlink_name(tree, dir);
	link_name(tree, dir, to, name);
	return true;
}

struct watch_dir *watch_tree_place(const struct watch_dir *dir, const char **ret_name)
{
	*ret_name = dir->name;
	return dir->parent;
}

void watch_tree_forget(struct watch_tree *tree, struct watch_dir *dir)
{
	struct watch_dir **at = &tree->by_wd[(unsigned)dir->wd % BUCKETS];
	while (*at && *at != dir)
		at = &(*at)->next_wd;
	if (*at)
		*at = dir->next_wd;
	dir->wd = -1;
}

bool watch_tree_prune(struct watch_tree *tree, struct watch_dir *dir, int *ret_wd)
{
	struct watch_dir *leaf = dir;
	while (leaf->children)
		leaf = leaf->children;
	*ret_wd = leaf->wd;
	if (leaf->wd >= 0)
		watch_tree_forget(tree, leaf);
	todo_remove(leaf);
	unlink_name(tree, leaf);
	tree->count--;
	free(leaf);
	return leaf != dir;
}

struct watch_dir *watch_tree_next_new(struct watch_tree *tree)
{
	return todo_take(&tree->fresh);
}

void watch_tree_put_off(struct watch_tree *tree, struct watch_dir *dir)
{
	todo_add(&tree->later, dir);
}

struct watch_dir *watch_tree_next_put_off(struct watch_tree *tree)
{
	return todo_take(&tree->later);
}

size_t watch_tree_put_off_count(const struct watch_tree *tree)
{
	return tree->later.count;
}

/* ---- paths ---- */

bool watch_tree_path(const struct watch_dir *dir, const char *name, char *to, size_t room)
{
	size_t len = name ? strlen(name) : 0;
	for (const struct watch_dir *up = dir; up->parent; up = up->parent)
		len += strlen(up->name) + (len > 0);
	if (!len) {
		name = ".";
		len = 1;
	}
	if (len >= room)
		return false;
	to[len] = 0;
	for (const struct watch_dir *up = dir; name || up->parent; name = NULL) {
		const char *part = name ? name : up->name;
		size_t n = strlen(part);
		len -= n;
		memcpy(to + len, part, n);
		if (len)
			to[--len] = '/';
		if (!name)
			up = up->parent;
	}
	return true;
}

/* ---- what a scan has seen ---- */

void watch_tree_see(struct watch_tree *tree, const struct watch_dir *dir, const char *name)
{
	size_t len = strlen(name) + 1;
	struct watch_tree_seen **bucket = &tree->seen[hash(dir->id, name)];
	struct watch_tree_seen *seen = xmalloc(sizeof *seen + len);
	seen->dir = dir->id;
	memcpy(seen->name, name, len);
	seen->next = *bucket;
	*bucket = seen;
	tree->seen_count++;
}

bool watch_tree_unsee(struct watch_tree *tree, const struct watch_dir *dir, const char *name)
{
	struct watch_tree_seen **at = &tree->seen[hash(dir->id, name)];
	while (*at && ((*at)->dir != dir->id || strcmp((*at)->name, name) != 0))
		at = &(*at)->next;
	struct watch_tree_seen *found = *at;
	if (!found)
		return false;
	*at = found->next;
	free(found);
	tree->seen_count--;
	return true;
}

void watch_tree_unsee_all(struct watch_tree *tree)
{
	for (size_t i = 0; i < BUCKETS && tree->seen_count; i++)
		for (struct watch_tree_seen *seen; (seen = tree->seen[i]); tree->seen_count--) {
			tree->seen[i] = seen->next;
			free(seen);
		}
}
