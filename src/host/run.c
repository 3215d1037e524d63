#include "host/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/ground.h"
#include "box/ids.h"
#include "config/reach.h"
#include "egress/veth.h"
#include "host/box_limits.h"
#include "host/denials.h"
#include "host/gateway.h"
#include "host/history.h"
#include "host/host.h"
#include "host/image.h"
#include "host/mounts.h"
#include "host/netns.h"
#include "host/network.h"
#include "service/service_names.h"

enum { BACKLOG = 1024, LOG_PIPE = 65536 };

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* The socket that the box's server will inherit; the host reaches it by name. */
static int listen_for(struct host *host, const char *id, struct err *err)
{
	const struct sockaddr_un address = gateway_address(host->state_fd, id);
	unlink(address.sun_path);
	auto_close int fd = netns_socket(host->netns, err);
	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_set(err, errno, "no socket for sandbox '%s'", id);
	return TAKE_FD(fd);
}

/* A pipe that always has a reader, the box's end itself: what a box logs waits there for the host,
 * survives it, and cannot fill the machine's disk. */
static int make_log(int *ret_box_fd, struct err *err)
{
	int ends[2];
	char path[64];
	if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
		return err_set(err, errno, "no pipe for the log of a sandbox");
	(void)fcntl(ends[0], F_SETPIPE_SZ, LOG_PIPE);
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
	*ret_box_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	close(ends[1]);
	if (*ret_box_fd >= 0)
		return ends[0];
	close(ends[0]);
	return err_set(err, errno, "no pipe for the log of a sandbox");
}

static void add_pair(json_t *list, const char *name, const char *value)
{
	auto_free char *pair = xasprintf("%s=%s", name, value);
	json_array_append_new(list, json_string(pair));
}

/* What can be ready before it is asked for, and the option of a box's server that says so. */
#define NAME(name, option, disabled_by, what)   name,
#define OPTION(name, option, disabled_by, what) option,
const char *const run_services[] = { SERVICE_NAMES(NAME) NULL };
static const char *const service_options[] = { SERVICE_NAMES(OPTION) };

enum box_network run_network(const json_t *spec)
{
	const char *mode = text(json_object_get(spec, "network"), "mode");
	return !mode || !strcmp(mode, "none") ? BOX_NETWORK_NONE
	       : !strcmp(mode, "full")        ? BOX_NETWORK_FULL
					      : BOX_NETWORK_ALLOW;
}

/* Pointers into a JSON array of strings; free() it. */
static const char **strings(const json_t *array)
{
	const char **list = xcalloc(json_array_size(array) + 1, sizeof *list);
	for (size_t i = 0; i < json_array_size(array); i++)
		list[i] = json_string_value(json_array_get(array, i));
	return list;
}

/* What the box can reach. Without a network, programs that try again and again are asked not to, unless
 * the image or whoever made the box says otherwise. */
static void add_network(json_t *list, const struct box *box)
{
	const json_t *network = json_object_get(box->spec, "network");
	const char *mode = text(network, "mode");
	const json_t *allow = json_object_get(network, "allow");
	auto_free const char **names = strings(allow);
	auto_buf struct buf reach = BUF(1 << 16);
	reach_describe(mode ? mode : "none", names, json_array_size(allow), &reach);
	add_pair(list, "AIO_SANDBOX_NETWORK", reach.data);
	if (run_network(box->spec) != BOX_NETWORK_NONE)
		return;
	add_pair(list, "PIP_RETRIES", "1"); /* with 0 it does not say why */
	add_pair(list, "npm_config_fetch_retries", "0");
	add_pair(list, "APT_CONFIG", GROUND_HOME "/share/apt/no-network.conf");
}

static json_t *environment_of(const struct host *host, const struct box *box)
{
	json_t *list = json_array();
	add_network(list, box);
	const char *name;
	json_t *value, *own = json_object_get(box->spec, "env");
	json_t *image = templates_settings(host, text(box->spec, "template"));
	image_environment(image, own, list);
	json_decref(image);
	json_object_foreach(own, name, value)
		add_pair(list, name, json_string_value(value));
	add_pair(list, "AIO_SANDBOX_ID", box->id);
	add_pair(list, "SANDBOX_API_KEY", box->secret);
	if (host->config->domain)
		add_pair(list, "AIO_DOMAIN", host->config->domain);
	if (host->config->cors_origins)
		add_pair(list, "AIO_CORS_ORIGINS", host->config->cors_origins);
	json_t *services = json_object_get(box->spec, "services");
	for (size_t i = 0; i < json_array_size(services); i++)
		for (size_t n = 0; run_services[n]; n++)
			if (!strcmp(json_string_value(json_array_get(services, i)),
				    run_services[n]))
				add_pair(list, service_options[n], "true");
	return list;
}

/* Mounts that it has to do without. */
static void tell_left(struct host *host, struct box *box, const json_t *left)
{
	for (size_t i = 0; i < json_array_size(left); i++) {
		const json_t *mount = json_array_get(left, i);
		const struct history_mount event = { text(mount, "target"), text(mount, "why") };
		log_warn("sandbox '%s' has no '%s': %s", box->id, event.target, event.why);
		history_add(host, box, HISTORY_UNMOUNTED, &event);
	}
}

static int start_box(const struct host *host, const struct box *box, const char *root, int listener,
		     int log, json_t *left, struct box_proc *ret, struct err *err)
{
	char cgroup[64];
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	const json_t *mounts = json_object_get(box->spec, "mounts");
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	size_t count;
	struct box_mount *from = mounts_of(host->config->mount_roots, mounts, &count, left, err);
	if (!from)
		return -1;
	json_t *env = environment_of(host, box);
	auto_free const char **variables = strings(env);
	struct box_spec spec = {
		.id = box->id,
		.dir = dir,
		.template = root,
		.env = variables,
		.cgroup = cgroup,
		.uid_base = box->uid_base,
		.limits = box_limits_of(host, json_object_get(box->spec, "limits")),
		.network = run_network(box->spec),
		.mounts = from,
		.mount_count = count,
		.listen_fd = listener,
		.log_fd = log,
	};
	int result = box_start(&spec, ret, err);
	if (result < 0) { /* there may be something of it if its makers died, or take too long */
		struct err why;
		if (box_stop(box->id, dir, cgroup, NULL, &why) < 0)
			*err = why;
	}
	mounts_free(from, spec.mount_count);
	json_decref(env);
	return result;
}

/* Names, separated by commas. */
static void allowed(const json_t *spec, struct buf *to)
{
	const json_t *names = json_object_get(json_object_get(spec, "network"), "allow");
	for (size_t i = 0; i < json_array_size(names); i++)
		buf_printf(to, "%s%s", i ? "," : "", json_string_value(json_array_get(names, i)));
}

static unsigned network_number(const struct box *box)
{
	return box->uid_base / 65536 % VETH_MAX;
}

int run_connect(const struct host *host, const struct box *box,
		int (*how)(const struct network_spec *spec, struct err *err), struct err *err)
{
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	auto_buf struct buf names = BUF(1 << 20);
	allowed(box->spec, &names);
	struct network_spec spec = { .dir = dir,
				     .mode = run_network(box->spec),
				     .pid = box->proc.pid,
				     .host = host->seed,
				     .number = network_number(box),
				     .user = box->uid_base + IDS_COUNT - 1,
				     .allow = names.len ? names.data : "",
				     .nets = host->config->open_nets };
	return how(&spec, err);
}

int run_stop(struct host *host, struct box *box, struct err *err)
{
	char cgroup[64];
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	denials_forget(host, box);
	network_close(dir, run_network(box->spec), host->seed, network_number(box));
	if (box_stop(box->id, dir, cgroup, box->proc.pid ? &box->proc : NULL, err) < 0)
		return -1;
	if (boxes_state(&host->boxes, box) != BOX_DELETED)
		keeper_drain(host, box);
	pthread_mutex_lock(&host->boxes.lock);
	int pidfd = box->pidfd, log_fd = box->log_fd;
	box->pidfd = box->log_fd = -1;
	box->proc = (struct box_proc){ 0 };
	pthread_mutex_unlock(&host->boxes.lock);
	own_close(&pidfd);
	own_close(&log_fd);
	auto_free char *socket = xasprintf("%s/socket", dir);
	unlink(socket);
	return 0;
}

int run_start(struct host *host, struct box *box, const char *root, struct err *err)
{
	struct box_proc proc;
	int box_log = -1;
	auto_close int listener = listen_for(host, box->id, err);
	auto_close int log = listener < 0 ? -1 : make_log(&box_log, err);
	auto_close int box_end = box_log;
	json_auto_t *left = json_array();
	if (log < 0 || start_box(host, box, root, listener, box_end, left, &proc, err) < 0)
		return -1;
	int pidfd = box_open(&proc, err);
	if (pidfd < 0)
		return -1;
	pthread_mutex_lock(&host->boxes.lock);
	box->proc = proc;
	box->pidfd = pidfd;
	box->log_fd = TAKE_FD(log);
	box->oom_kills = 0;
	box->parted = false;
	box->denied_at = 0;
	pthread_mutex_unlock(&host->boxes.lock);
	box->used_ms = clock_ms();
	tell_left(host, box, left);
	denials_watch(host, box);
	if (run_connect(host, box, network_open, err) == 0)
		return 0;
	struct err ignored;
	(void)run_stop(host, box, &ignored);
	return -1;
}
