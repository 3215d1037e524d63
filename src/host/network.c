#include "host/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/ids.h"
#include "egress/pasta.h"
#include "egress/veth.h"
#include "proc/pid_file.h"
#include "proc/utility.h"

enum { DENIED_PIECE = 16384 };

/* The worker that was started for this box: where its number is, and what its arguments name. */
struct worker_names {
	char note[4200], denied[4200];
};

static struct worker_names name_worker(const char *dir)
{
	struct worker_names names;
	snprintf(names.note, sizeof names.note, "%s/egress.pid", dir);
	snprintf(names.denied, sizeof names.denied, "%s/denied", dir);
	return names;
}

static bool worker_runs(const char *dir)
{
	struct worker_names names = name_worker(dir);
	return pid_file_runs(names.note, names.denied);
}

static void end_worker(const char *dir)
{
	struct worker_names names = name_worker(dir);
	pid_file_kill(names.note, names.denied);
}

/* Which process it is, and what it was told to open beside what is public. */
static int note_worker(const struct network_spec *spec, pid_t pid, struct err *err)
{
	char path[4200];
	snprintf(path, sizeof path, "%s/egress.pid", spec->dir);
	FILE *file = fopen(path, "we");
	if (!file || fprintf(file, "%d %s\n", pid, spec->nets ? spec->nets : "") < 0 ||
	    fclose(file) != 0)
		return err_set(err, errno, "'%s'", path);
	return 0;
}

/* Whether it was told the same as it would be now: a host before this one may have opened other
 * networks. */
static bool is_as_told(const struct network_spec *spec)
{
	char path[4200];
	auto_free char *line = NULL;
	size_t room = 0;
	snprintf(path, sizeof path, "%s/egress.pid", spec->dir);
	FILE *file = fopen(path, "re");
	ssize_t n = file ? getline(&line, &room, file) : -1;
	if (file)
		fclose(file);
	const char *nets = n > 0 ? strchr(line, ' ') : NULL;
	size_t len = spec->nets ? strlen(spec->nets) : 0;
	return nets && strlen(nets) == len + 2 &&
	       !strncmp(nets + 1, spec->nets ? spec->nets : "", len);
}

/* Runs `aio egress` until it goes on by itself: it outlives the host, and ends with its box. */
static int start_worker(const struct network_spec *spec, struct err *err)
{
	auto_free char *netns = xasprintf("/proc/%d/ns/net", spec->pid);
	auto_free char *box = xasprintf("%d", spec->pid);
	auto_free char *user = xasprintf("%u", spec->user);
	auto_free char *events = xasprintf("%s/denied", spec->dir);
	auto_free char *counters = xasprintf("%s/bytes", spec->dir);
	auto_buf struct buf said = BUF(4096);
	const char *argv[] = { "aio",
			       "egress",
			       "--background",
			       "--netns",
			       netns,
			       "--pid",
			       box,
			       "--user",
			       user,
			       "--events",
			       events,
			       "--counters",
			       counters,
			       "--allow",
			       spec->allow ? spec->allow : "",
			       "--nets",
			       spec->nets ? spec->nets : "",
			       spec->mode == BOX_NETWORK_FULL ? "--forward" : NULL,
			       NULL };
	int pid;
	end_worker(spec->dir);
	(void)unlink(events); /* each may write so much, and boxes start again and again */
	int result = utility_read("/proc/self/exe", (char **)argv, &said, UTILITY_MS, err);
	if (said.len && sscanf(said.data, "ready %d", &pid) == 1)
		return note_worker(spec, pid, err);
	if (said.len)
		said.data[strcspn(said.data, "\n")] = 0;
	return result < 0 && !said.len ? -1 : err_set(err, ERR_UNAVAILABLE, "%s", said.data);
}

const char *network_full(void)
{
	return ids_mapped() ? "pairs of interfaces" : pasta_can() ? "pasta" : NULL;
}

static int open_full(const struct network_spec *spec, struct err *err)
{
	return ids_mapped() ? veth_open(spec->host, spec->number, spec->pid, spec->nets, err)
			    : pasta_open(spec->dir, spec->pid, spec->nets, err);
}

bool network_works(const char *dir, enum box_network mode)
{
	bool whole = mode != BOX_NETWORK_FULL || ids_mapped() || pasta_runs(dir);
	return mode == BOX_NETWORK_NONE || (whole && worker_runs(dir));
}

int network_open(const struct network_spec *spec, struct err *err)
{
	if (spec->mode == BOX_NETWORK_NONE)
		return 0;
	if (spec->mode == BOX_NETWORK_FULL && open_full(spec, err) < 0)
		return -1;
	if (start_worker(spec, err) == 0)
		return 0;
	network_close(spec->dir, spec->mode, spec->host, spec->number);
	return -1;
}

void network_close(const char *dir, enum box_network mode, uint32_t host, unsigned number)
{
	if (mode != BOX_NETWORK_NONE)
		end_worker(dir);
	if (mode == BOX_NETWORK_FULL && ids_mapped())
		(void)veth_close(host, number, NULL);
	else if (mode == BOX_NETWORK_FULL)
		pasta_close(dir);
}

int network_watch(void)
{
	struct sockaddr_nl all = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR };
	auto_close int fd = ids_mapped()
				    ? -1
				    : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
					     NETLINK_ROUTE);
	return fd < 0 || bind(fd, (void *)&all, sizeof all) < 0 ? -1 : TAKE_FD(fd);
}

/* What is told does not matter: all addresses are looked at again. Nor that there was more. */
bool network_changed(int fd)
{
	char message[8192];
	bool changed = false;
	while (fd >= 0 && (recv(fd, message, sizeof message, 0) >= 0 || errno == ENOBUFS))
		changed = true;
	return changed;
}

int network_update(const struct network_spec *spec, struct err *err)
{
	return spec->mode != BOX_NETWORK_FULL || ids_mapped()
		       ? 0
		       : pasta_update(spec->pid, spec->nets, err);
}

int network_repair(const struct network_spec *spec, struct err *err)
{
	if (network_update(spec, err) < 0)
		return -1;
	bool works = network_works(spec->dir, spec->mode);
	if (works && is_as_told(spec))
		return 0;
	if (works)
		network_close(spec->dir, spec->mode, spec->host, spec->number);
	return network_open(spec, err);
}

void network_bytes(const char *dir, int64_t *ret_in, int64_t *ret_out)
{
	char path[4200];
	uint64_t bytes[2] = { 0, 0 };
	snprintf(path, sizeof path, "%s/bytes", dir);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, bytes, sizeof bytes) != sizeof bytes)
		bytes[0] = bytes[1] = 0;
	*ret_in = (int64_t)bytes[0];
	*ret_out = (int64_t)bytes[1];
}

void network_denied(const char *dir, int64_t *at, void (*fn)(const char *line, void *arg),
		    void *arg)
{
	char path[4200], text[DENIED_PIECE + 1];
	snprintf(path, sizeof path, "%s/denied", dir);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	if (!fn)
		*at = size;
	if (size < *at) /* begun anew, lest it grow for ever */
		*at = 0;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, DENIED_PIECE, *at);
	if (n <= 0 || !fn)
		return;
	text[n] = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		fn(line, arg);
		*at += end + 1 - line;
	}
}
