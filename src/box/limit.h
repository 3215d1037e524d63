/* limit.h - what a box's limits are in the files of cgroups, v2 and v1. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct box_limits;

enum { GROUP_MEMORY, GROUP_CPU, GROUP_PIDS, GROUP_IO, GROUP_CONTROLLERS };

/* Of the machine, in bytes. */
int64_t limit_machine_memory(void);

/* Where v1 has a limit of the memory in buffers of sockets. */
#define LIMIT_SOCKETS "memory.kmem.tcp.limit_in_bytes"

/* What all boxes together may have of it, in the group that is above theirs; less stays. */
void limit_together(int dir, int64_t memory, bool v2);

/* Writes a limit to the directory of a cgroup: of the whole box, or of its commands alone. */
int limit_write(int dir, int controller, const struct box_limits *limits, bool whole, bool v2);

/* Whether a weight of io has any effect on a disk, and by which file. */
enum limit_io { LIMIT_IO_NONE, LIMIT_IO_COST, LIMIT_IO_BFQ };

/* sys: where sysfs is mounted; cost: what io.cost.qos of the hierarchy's root says, "" if nothing. */
enum limit_io limit_io_of(const char *sys, dev_t device, const char *cost);

/* Writes the weight of the whole box. */
int limit_write_io(int dir, enum limit_io io, int64_t weight, bool v2);
