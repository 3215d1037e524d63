/* box.h - one box on this machine: made, looked at, frozen and unmade. Blocking: the host calls these
 * in short-lived processes of its own, never in its loop. The caller is root, of the machine or of a user
 * namespace (see ids.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/files.h"

enum box_network { BOX_NETWORK_NONE, BOX_NETWORK_ALLOW, BOX_NETWORK_FULL };

struct box_limits {
	int64_t memory;    /* bytes; 0: none */
	int64_t most;      /* bytes of memory where there is no such limit; 0: none */
	int64_t disk;      /* bytes; 0: none */
	double cpus;       /* 0: none */
	int64_t pids;      /* 0: none */
	int64_t io_weight; /* 1 to 10000, 100 being what all others have; 0: none */
};

struct box_mount {
	const char *root; /* a directory, or a file that is the source itself */
	const char *
		source; /* below it, "": it itself; what leads out of it, or is a link, is refused */
	const char *target;
	bool writable;
};

/* What a box is to be. All strings stay the caller's. */
struct box_spec {
	const char *id; /* also its host name: [a-z0-9-], at most 40 */
	const char
		*dir; /* of this box alone, 0700: its upper layer and all else it leaves on disk */
	const char
		*template; /* directory of the template, NULL: from the machine's own directories */
	const char *const *env; /* "A=b", ended by NULL: for the box server and all it starts */
	const char *cgroup;     /* name of its group below ours */
	uint32_t uid_base;      /* of its 65,536 uids */
	struct box_limits limits;
	enum box_network network;
	const struct box_mount *mounts;
	size_t mount_count;
	int listen_fd; /* listening Unix socket that its server inherits */
	int log_fd;    /* its stdout and stderr */
};

/* What must be remembered of a running box to find it again after a crash of the host. */
struct box_proc {
	pid_t pid;               /* of its init, outside */
	uint64_t start_time;     /* field 22 of /proc/PID/stat */
	uint64_t pid_ns, net_ns; /* inodes */
	char boot_id[40];
};

/* What box_answer() reads. */
struct box_answer {
	int result;
	struct box_proc proc;
	struct err err;
};

struct box_usage {
	int64_t cpu_us, memory, memory_peak, pids, disk, oom_kills, rx_bytes, tx_bytes;
};

/* What this machine offers, looked at once: what is missing, and which means are used. */
struct box_means {
	char text[2048]; /* a line each, for people */
	bool usable;     /* boxes can be made at all */
	bool can_limit_memory, can_limit_cpu, can_limit_pids, can_limit_disk, can_weigh_io,
		can_freeze;
	/* Boxes of the machine's own directories, mounts of its directories. */
	bool can_machine, can_mount;
};
int box_probe(const char *state_dir, struct box_means *ret, struct err *err);

/* The AppArmor profile that boxes run under, where it is loaded. */
#define BOX_PROFILE "aiobox"

/* Starts the processes that make boxes; they end when this process does, the boxes do not. They are
 * this program, run anew as its hidden command "make-boxes" (see maker.h), so that no secret of the
 * caller is in them. hold: a descriptor (or -1) that they have until they end, so that a lock on it lasts
 * as long as anything is in the making. To be called after box_probe(). If they die, others are started
 * when the next box is asked for. */
int box_makers(const char *state_dir, int hold, struct err *err);

/* Starts a box whose server then listens on listen_fd. A box that cannot be isolated or limited as
 * asked is refused, with the reason, and leaves nothing. On a box of which only the directory is
 * there, starts it again on its files.
 * box_start() waits for it. box_ask() and box_answer() are its two halves, for a caller that has several
 * made at once, as tests/escape does: the descriptor becomes readable when there is an answer, which
 * closes it.
 * ERR_GONE: the makers died over it. box_stop() ends what there may be of the box; of a new one, what is
 * in its directory is half made and must be removed before it is asked for again. */
int box_start(const struct box_spec *spec, struct box_proc *ret, struct err *err);
int box_ask(const struct box_spec *spec, struct err *err);
int box_answer(int fd, struct box_proc *ret, struct err *err);

/* A pidfd of a box that still runs, or -1. */
int box_open(const struct box_proc *proc, struct err *err);

/* What a running box writes its log to, to be read by another host than the one that started it; -1. */
int box_log(const struct box_proc *proc);

/* Kills everything in it, and waits until nothing is left: processes, mounts, cgroups, interfaces. */
int box_stop(const char *id, const char *dir, const char *cgroup, const struct box_proc *proc,
	     struct err *err);
/* Removes its files too. */
int box_remove(const char *dir, struct err *err);

int box_freeze(const char *cgroup, bool frozen, struct err *err);
int box_usage(const char *dir, const char *cgroup, const struct box_proc *proc,
	      struct box_usage *ret, struct err *err);
/* Processes in it that were killed because its memory was full. */
int64_t box_oom_kills(const char *cgroup);

/* Copies the files of a box to those of another, not started yet. If the box runs, cgroup is its, and it is
 * frozen for moments only (see live_copy.h); NULL: it is frozen, or stopped. */
int box_copy(const char *from_dir, const char *cgroup, const char *to_dir, uint32_t to_uid_base,
	     struct err *err);

/* Makes a template, in a directory that is not there yet, of what a box looks like; cgroup as above. keep:
 * what of the files that were written in the box is part of it, NULL for all. */
int box_snapshot(const char *dir, const char *cgroup, files_keep *keep, const char *template,
		 struct err *err);

/* The exit status that its init wrote, as wait() has it; -1 when there is none. */
int box_exit_status(const char *dir);
