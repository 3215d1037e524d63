/* box_limits.h - what a box may use, and which values make sense here. Another limit is a member of struct
 * box_limits, a row here, and what holds it (box/limit.c). */
#pragma once
#include <jansson.h>

/* clang-format off */
#define BOX_LIMITS_SIZE_MAX (1ll << 50)

/* Each is a field of requests, an option for the default box, and a check:
 *   member, type of the field, flags, example, most; means (a bool of struct box_means);
 *   least that a box can work with, found by trial, and why; type of the option, its name, variable and value;
 *   the words of the field and of the option, before and after the least. */
#define BOX_LIMITS(ROW)                                                                                         \
	ROW(memory, INT, SIZED, "\"512M\"", BOX_LIMITS_SIZE_MAX, can_limit_memory,                              \
	    16 << 20, "16M", "no command starts reliably in less", OPT_SIZE, "memory", "AIO_MEMORY", "SIZE",    \
	    "Memory, in bytes or as 512M or 1.5G; at least ", "; 0 for no limit.",                              \
	    "Memory of the default box, at least ", "; 0: as --box-memory says.")                               \
	ROW(cpus, NUM, 0, "1.5", 10000, can_limit_cpu,                                                          \
	    0.01, "0.01", "the kernel takes no less", OPT_NUM, "cpus", "AIO_CPUS", "CORES",                     \
	    "CPU cores, ", " to as many as the machine has; 0 for no limit.",                                   \
	    "CPU cores of the default box, such as 1.5, at least ", "; 0 for no limit.")                        \
	ROW(pids, INT, 0, "200", 4194304, can_limit_pids,                                                       \
	    8, "8", "a shell and a pipeline beside it; notebooks and Node.js take 24", OPT_INT, "pids", "AIO_PIDS", "N", \
	    "Processes and threads, at least ", "; 0: a quarter of what the machine can have.",                 \
	    "Processes and threads of the default box, at least ", "; 0: a quarter of what the machine can have.") \
	ROW(disk, INT, SIZED, "\"2G\"", BOX_LIMITS_SIZE_MAX, can_limit_disk,                                    \
	    16 << 20, "16M", "a file system needs that much", OPT_SIZE, "disk", "AIO_DISK", "SIZE",             \
	    "Disk, in bytes or as 512M or 1.5G; at least ", "; 0 for no limit.",                                \
	    "Disk of the default box, at least ", "; 0: as --box-disk says.")                                   \
	ROW(io_weight, INT, 0, "300", 10000, can_weigh_io,                                                      \
	    1, "1", "it is a whole number", OPT_INT, "io-weight", "AIO_IO_WEIGHT", "N",                         \
	    "Share of the disk's time when others want it too, ", " to 10000, where all that have none have 100; 0 for none.", \
	    "Share of the disk's time of the default box, ", " to 10000, where all that have none have 100; 0 for none.")
/* clang-format on */

struct box_limits;
struct err;
struct host;

extern const struct schema box_limits_schema;

/* Whether what was asked for (as box_limits_schema has it; absent or 0: none) can be held on this machine, and a
 * box can work with them. `prefix` stands before the name that err tells: "limits." or "--". */
int box_limits_check(const struct host *host, const json_t *asked, const char *prefix,
		     struct err *err);

/* Whether the machine's disk is as large as the limit of it: one beyond all that there is would be none. */
int box_limits_fit(const struct host *host, const json_t *asked, const char *prefix,
		   struct err *err);

/* As box_limits_schema has them; new. */
json_t *box_limits_json(const struct box_limits *from);

/* What a box gets that asked for those: one that was given no limit leaves most of what the machine can
 * have to others. */
struct box_limits box_limits_of(const struct host *host, const json_t *asked);
