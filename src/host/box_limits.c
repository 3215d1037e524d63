#include "host/box_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "box/limit.h"
#include "host/host.h"

#define FIELD(member, type, flags, sample, most, means, least, text, why, kind, option, variable, \
	      value, before, after, ...)                                                          \
	type(box_limits, member, MIN | MAX | (flags), before text after, .def = "0", .min = 0,    \
	     .max = most, .example = sample),
static const struct field fields[] = { BOX_LIMITS(FIELD) };
const struct schema box_limits_schema = SCHEMA(box_limits, "SandboxLimits", fields, .strict = true);

#define LIMIT(member, type, flags, sample, most, means, least, text, why, ...) \
	{ #member, offsetof(struct box_means, means), least, text, why },
static const struct limit {
	const char *name;
	size_t means;
	double least;
	const char *text, *why;
} limits[] = { BOX_LIMITS(LIMIT) };

static int refuse(const char *prefix, const char *name, const char *text, struct err *err)
{
	char flag[32];
	size_t i = 0;
	for (; name[i] && i + 1 < sizeof flag; i++)
		flag[i] = *prefix == '-' && name[i] == '_' ? '-' : name[i];
	flag[i] = 0;
	return err_set(err, ERR_INVALID, "%s%s: %s", prefix, flag, text);
}

static int check_means(const struct host *host, const json_t *asked, const char *prefix,
		       struct err *err)
{
	for (size_t i = 0; i < COUNT(limits); i++) {
		const bool *can = (const void *)((const char *)&host->means + limits[i].means);
		if (json_number_value(json_object_get(asked, limits[i].name)) > 0 && !*can)
			return refuse(prefix, limits[i].name,
				      "this machine has no means to hold it, or none for the user "
				      "that the host runs as (see docs/host.md)",
				      err);
	}
	return 0;
}

static const char *in_words(double bytes, char to[16])
{
	bool large = bytes >= 0x1p40;
	snprintf(to, 16, "%.1f%c", bytes / (large ? 0x1p40 : 0x1p30), large ? 'T' : 'G');
	return to;
}

int box_limits_fit(const struct host *host, const json_t *asked, const char *prefix,
		   struct err *err)
{
	struct statvfs there;
	char text[200], want[16], has[16], left[16];
	double disk = json_number_value(json_object_get(asked, "disk"));
	if (fstatvfs(host->state_fd, &there) < 0)
		return err_set(err, errno, "--state: statvfs");
	double unit = (double)there.f_frsize, size = (double)there.f_blocks * unit;
	if (disk <= size)
		return 0;
	snprintf(text, sizeof text,
		 "%s is more than the disk of --state has: it has %s, of which %s are free",
		 in_words(disk, want), in_words(size, has),
		 in_words((double)there.f_bavail * unit, left));
	return refuse(prefix, "disk", text, err);
}

int box_limits_check(const struct host *host, const json_t *asked, const char *prefix,
		     struct err *err)
{
	char text[200];
	for (size_t i = 0; i < COUNT(limits); i++) {
		double value = json_number_value(json_object_get(asked, limits[i].name));
		if (value <= 0 || value >= limits[i].least)
			continue;
		snprintf(text, sizeof text,
			 "%.15g is too little: the least is %s (%s), 0 is no limit", value,
			 limits[i].text, limits[i].why);
		return refuse(prefix, limits[i].name, text, err);
	}
	double cpus = json_number_value(json_object_get(asked, "cpus"));
	if (cpus > get_nprocs()) {
		snprintf(
			text, sizeof text,
			"%.15g is more than this machine's %d cores: it counts cores, not percent, "
			"such as 1.5",
			cpus, get_nprocs());
		return refuse(prefix, "cpus", text, err);
	}
	return check_means(host, asked, prefix, err);
}

json_t *box_limits_json(const struct box_limits *from)
{
	json_t *json = json_object();
	for (size_t i = 0; i < COUNT(fields); i++) {
		const void *at = (const char *)from + fields[i].at;
		json_object_set_new(json, fields[i].name,
				    fields[i].type == T_NUM ? json_real(*(const double *)at)
							    : json_integer(*(const int64_t *)at));
	}
	return json;
}

static struct box_limits read_limits(const json_t *asked)
{
	struct box_limits to = { 0 };
	for (size_t i = 0; i < COUNT(fields); i++) {
		void *at = (char *)&to + fields[i].at;
		double value = json_number_value(json_object_get(asked, fields[i].name));
		if (fields[i].type == T_NUM)
			*(double *)at = value;
		else
			*(int64_t *)at = (int64_t)value;
	}
	return to;
}

static int64_t number_in(const char *path)
{
	char text[32] = "";
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || read(fd, text, sizeof text - 1) < 0 ? 0 : strtoll(text, NULL, 10);
}

struct box_limits box_limits_of(const struct host *host, const json_t *asked)
{
	struct box_limits to = read_limits(asked);
	if (!to.memory && host->means.can_limit_memory)
		to.most = host->config->box_memory ? host->config->box_memory
						   : limit_machine_memory() / 4 * 3;
	if (!to.pids && host->means.can_limit_pids) {
		int64_t pids = number_in("/proc/sys/kernel/pid_max"),
			threads = number_in("/proc/sys/kernel/threads-max");
		to.pids = (pids < threads ? pids : threads) / 4;
	}
	if (!to.disk)
		to.disk = host->config->box_disk;
	return to;
}
