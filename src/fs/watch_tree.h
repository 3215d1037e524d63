/* watch_tree.h - the directories of a watch: by the kernel's number for them, and by name.
 *
 * It also remembers which entries of new directories a scan has seen, until the kernel's own word
 * about them has come. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct watch_dir;
struct watch_tree;

struct watch_tree *watch_tree_new(void);
void watch_tree_free(struct watch_tree *tree);          /* NULL is fine */
size_t watch_tree_count(const struct watch_tree *tree); /* NULL: 0 */

/* parent NULL: the root. */
struct watch_dir *watch_tree_add(struct watch_tree *tree, struct watch_dir *parent,
				 const char *name, int wd);
struct watch_dir *watch_tree_root(const struct watch_tree *tree);
struct watch_dir *watch_tree_find(const struct watch_tree *tree, int wd);
struct watch_dir *watch_tree_child(const struct watch_tree *tree, const struct watch_dir *parent,
				   const char *name);

/* Moves a directory with all below it. False when `to` is below it, which is old news of one of them. */
bool watch_tree_move(struct watch_tree *tree, struct watch_dir *dir, struct watch_dir *to,
		     const char *name);

bool watch_tree_below(const struct watch_dir *dir, const struct watch_dir *top); /* or the same */

/* Where it is: the directory and the name in it. */
struct watch_dir *watch_tree_place(const struct watch_dir *dir, const char **ret_name);

/* The kernel does not watch it any more. */
void watch_tree_forget(struct watch_tree *tree, struct watch_dir *dir);

/* Takes out one directory at or below dir, the deepest first: *ret_wd is its number, -1 when the kernel
 * has forgotten that. False once it was dir itself. */
bool watch_tree_prune(struct watch_tree *tree, struct watch_dir *dir, int *ret_wd);

/* A directory with wd -1 is known to be somewhere, but cannot be reached by its path at the moment. */
bool watch_tree_watched(const struct watch_dir *dir);
void watch_tree_watch(struct watch_tree *tree, struct watch_dir *dir, int wd);

/* Those that are still to be read: one that was added or got its number, and not given here before. */
struct watch_dir *watch_tree_next_new(struct watch_tree *tree);

/* Those that are to be tried once more, and how many there are. */
void watch_tree_put_off(struct watch_tree *tree, struct watch_dir *dir);
struct watch_dir *watch_tree_next_put_off(struct watch_tree *tree);
size_t watch_tree_put_off_count(const struct watch_tree *tree);

/* The path, relative to the root, of a directory (".": the root) or of a name in it. False when there
 * is no room. */
bool watch_tree_path(const struct watch_dir *dir, const char *name, char *to, size_t room);

void watch_tree_see(struct watch_tree *tree, const struct watch_dir *dir, const char *name);
bool watch_tree_unsee(struct watch_tree *tree, const struct watch_dir *dir, const char *name);
void watch_tree_unsee_all(struct watch_tree *tree);
