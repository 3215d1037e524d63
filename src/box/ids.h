/* ids.h - the user ids of boxes: which there are, and which of them files carry on disk.
 *
 * For root of the machine, mounts show files with other ids than they have, so all of them have 0 to
 * 65535 on disk. In a user namespace, as an ordinary user's host is in (see host/rootless.h), the
 * files of each box have the ids of its range, and so do its copy of a template: the directory that
 * holds them belongs to the first of these. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { IDS_COUNT = 65536, IDS_GEM = 1000 }; /* of a box, and of its user in that */

/* Whether mounts can show other ids. */
bool ids_mapped(void);

/* The first id on disk of a box's range, and of what new templates have: 0 for root. */
uint32_t ids_on_disk(uint32_t base);
uint32_t ids_of_templates(void);

/* Whom a directory belongs to. */
uint32_t ids_owner(const char *dir);

/* Ranges of IDS_COUNT ids that are this namespace's, as users and as groups. None, and -1, where that
 * is all there are. */
int ids_ranges(uint32_t *to, size_t room);
/* The same from the text of uid_map and gid_map: pure. */
int ids_ranges_of(const char *users, const char *groups, uint32_t *to, size_t room);

/* Makes 0 to 65535 in a process's new namespace these of ours. */
int ids_write_maps(pid_t pid, uint32_t base, struct err *err);

/* Has a tree show its files with the ids of a user namespace, where mounts can; and sets its flags. */
int ids_show(int tree, int user_ns, uint64_t flags, const char *path, struct err *err);

/* A namespace for files of the machine that a box may have, see bind.h: this user's and this group's are
 * gem's in a box with ids from `base` on, and those of its other users have their own ids on disk. */
int ids_open_shared(uint32_t base, uint32_t uid, uint32_t gid, struct err *err);

/* fork(), whose child is root of the range alone that begins there, in a namespace of users and in
 * further ones (CLONE_NEW…) of its own. */
pid_t ids_fork(uint32_t base, int spaces, struct err *err);
