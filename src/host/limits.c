#include "host/limits.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "host/host.h"

struct limits {
	int64_t memory, pids, disk, io_weight;
	double cpus;
};

static const struct field fields[] = {
	INT(limits, memory, MIN | MAX | SIZED,
	    "Memory, in bytes or as 512M or 1.5G; at least 16M; 0 for no limit.", .def = "0",
	    .min = 0, .max = 0x1p50, .example = "\"512M\""),
	NUM(limits, cpus, MIN | MAX,
	    "CPU cores, 0.01 to as many as the machine has; 0 for no limit.", .def = "0", .min = 0,
	    .max = 10000, .example = "1.5"),
	INT(limits, pids, MIN | MAX,
	    "Processes and threads, at least 8; 0: a quarter of what the machine can have.",
	    .def = "0", .min = 0, .max = 4194304, .example = "200"),
	INT(limits, disk, MIN | MAX | SIZED,
	    "Disk, in bytes or as 512M or 1.5G; at least 16M; 0 for no limit.", .def = "0",
	    .min = 0, .max = 0x1p50, .example = "\"2G\""),
	INT(limits, io_weight, MIN | MAX,
	    "Share of the disk's time when others want it too, 1 to 10000, where all that have none have 100; 0 for none.",
	    .def = "0", .min = 0, .max = 10000, .example = "300"),
};
const struct schema limits_schema = SCHEMA(limits, "SandboxLimits", fields, .strict = true);

/* What a box can work with, found by trial: with less memory or fewer processes, commands do not
 * start, or cannot start others; a smaller disk is not made. */
static const struct least {
	const char *name;
	double least;
	const char *text, *why;
} least[] = {
	{ "memory", 16 << 20, "16M", "no command starts reliably in less" },
	{ "disk", 16 << 20, "16M", "a file system needs that much" },
	{ "pids", 8, "8", "a shell and a pipeline beside it; notebooks and Node.js take 24" },
	{ "cpus", 0.01, "0.01", "the kernel takes no less" },
};

static int refuse(const char *prefix, const char *name, const char *text, struct err *err)
{
	char flag[32];
	size_t i = 0;
	for (; name[i] && i + 1 < sizeof flag; i++)
		flag[i] = *prefix == '-' && name[i] == '_' ? '-' : name[i];
	flag[i] = 0;
	return err_set(err, ERR_INVALID, "%s%s: %s", prefix, flag, text);
}

static int check_means(const struct host *host, const json_t *limits, const char *prefix,
		       struct err *err)
{
	const struct {
		const char *limit;
		bool can;
	} rows[] = { { "memory", host->means.can_limit_memory },
		     { "cpus", host->means.can_limit_cpu },
		     { "pids", host->means.can_limit_pids },
		     { "disk", host->means.can_limit_disk },
		     { "io_weight", host->means.can_weigh_io } };
	for (size_t i = 0; i < COUNT(rows); i++)
		if (json_number_value(json_object_get(limits, rows[i].limit)) > 0 && !rows[i].can)
			return refuse(prefix, rows[i].limit,
				      "this machine has no means to hold it, or none for the user "
				      "that the host runs as (see docs/host.md)",
				      err);
	return 0;
}

int limits_check(const struct host *host, const json_t *limits, const char *prefix, struct err *err)
{
	char text[200];
	for (size_t i = 0; i < COUNT(least); i++) {
		double value = json_number_value(json_object_get(limits, least[i].name));
		if (value <= 0 || value >= least[i].least)
			continue;
		snprintf(text, sizeof text,
			 "%.15g is too little: the least is %s (%s), 0 is no limit", value,
			 least[i].text, least[i].why);
		return refuse(prefix, least[i].name, text, err);
	}
	double cpus = json_number_value(json_object_get(limits, "cpus"));
	if (cpus > get_nprocs()) {
		snprintf(
			text, sizeof text,
			"%.15g is more than this machine's %d cores: it counts cores, not percent, "
			"such as 1.5",
			cpus, get_nprocs());
		return refuse(prefix, "cpus", text, err);
	}
	return check_means(host, limits, prefix, err);
}
