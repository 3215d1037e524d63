/* driver.c - makes and unmakes boxes from the command line, where a test has no host:
 *   driver STATE start ID [memory=N] [cpus=N] [pids=N] [disk=N] [template=DIR] [mount=FROM:TO[:rw]]…
 *   driver STATE stop ID       driver STATE remove ID      driver STATE probe
 *   driver STATE freeze ID     driver STATE thaw ID        driver STATE usage ID
 *   driver STATE snapshot ID NAME
 *   driver STATE copy ID ID    driver STATE cycle COUNT
 * A box listens on STATE/ID.sock and keeps its files in STATE/ID. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/box.h"
#include "box/maker.h"
#include "cli/commands.h"

enum { FIRST_UID = 700000000, MOUNTS = 16 };

static const char *state;

static int fail(const struct err *err)
{
	fprintf(stderr, "driver: %s\n", err->msg);
	return 1;
}

static void in_state(char *to, size_t room, const char *id, const char *end)
{
	snprintf(to, room, "%s/%s%s", state, id, end);
}

static void name_group(char *to, size_t room, const char *id)
{
	snprintf(to, room, "test-%s", id);
}

/* Ids of boxes end with their number, which also tells their uids apart. */
static uint32_t uid_of(const char *id)
{
	const char *at = id + strlen(id);
	while (at > id && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return FIRST_UID + (uint32_t)strtoul(at, NULL, 10) % 10000 * 65536;
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof address.sun_path)
		exit(2);
	memcpy(address.sun_path, path, strlen(path));
	unlink(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(fd, 512) < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void save(const char *id, const struct box_proc *proc)
{
	char path[4200];
	in_state(path, sizeof path, id, ".proc");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, proc, sizeof *proc) != sizeof *proc)
		perror(path);
	close(fd);
}

static void load(const char *id, struct box_proc *ret)
{
	char path[4200];
	in_state(path, sizeof path, id, ".proc");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	memset(ret, 0, sizeof *ret);
	if (fd >= 0) {
		if (read(fd, ret, sizeof *ret) != sizeof *ret)
			memset(ret, 0, sizeof *ret);
		close(fd);
	}
}

/* Reads "name=value"; NULL when it is not that name. */
static const char *value(const char *text, const char *name)
{
	size_t len = strlen(name);
	return !strncmp(text, name, len) && text[len] == '=' ? text + len + 1 : NULL;
}

/* What a box needs, from its id and "name=value" arguments. */
struct wanted {
	struct box_spec spec;
	char dir[4200], socket[4200], group[128];
	struct box_mount mounts[MOUNTS];
	const char *env[64];
	size_t envs;
};

static void want_mount(struct wanted *w, const char *text)
{
	char *rest = xstrdup(text);
	struct box_mount *m = &w->mounts[w->spec.mount_count++];
	m->root = strsep(&rest, ":");
	m->source = "";
	m->target = strsep(&rest, ":");
	m->writable = rest && !strcmp(rest, "rw");
}

static void want_one(struct wanted *w, const char *arg)
{
	const char *text;
	if ((text = value(arg, "memory")))
		w->spec.limits.memory = strtoll(text, NULL, 10);
	else if ((text = value(arg, "disk")))
		w->spec.limits.disk = strtoll(text, NULL, 10);
	else if ((text = value(arg, "pids")))
		w->spec.limits.pids = strtoll(text, NULL, 10);
	else if ((text = value(arg, "cpus")))
		w->spec.limits.cpus = strtod(text, NULL);
	else if ((text = value(arg, "io_weight")))
		w->spec.limits.io_weight = strtoll(text, NULL, 10);
	else if ((text = value(arg, "template")))
		w->spec.template = text;
	else if ((text = value(arg, "env")) && w->envs < COUNT(w->env) - 1)
		w->env[w->envs++] = text;
	else if ((text = value(arg, "mount")) && w->spec.mount_count < MOUNTS)
		want_mount(w, text);
}

static void want(struct wanted *w, const char *id, int argc, char **argv)
{
	char path[4200];
	*w = (struct wanted){ .spec = { .id = id, .uid_base = uid_of(id) } };
	in_state(w->dir, sizeof w->dir, id, "");
	mkdir(w->dir, 0700);
	in_state(w->socket, sizeof w->socket, id, ".sock");
	name_group(w->group, sizeof w->group, id);
	in_state(path, sizeof path, id, ".log");
	w->spec.dir = w->dir;
	w->spec.cgroup = w->group;
	w->spec.mounts = w->mounts;
	w->spec.env = w->env;
	w->spec.listen_fd = listen_on(w->socket);
	w->spec.log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	for (int i = 0; i < argc; i++)
		want_one(w, argv[i]);
}

static int start(int argc, char **argv)
{
	static struct wanted w;
	struct box_proc proc;
	struct err err;
	want(&w, argv[0], argc - 1, argv + 1);
	if (box_makers(state, -1, &err) < 0 || box_start(&w.spec, &proc, &err) < 0)
		return fail(&err);
	save(argv[0], &proc);
	printf("%d\n", proc.pid);
	return 0;
}

static int stop(int argc, char **argv)
{
	char dir[4200], group[128];
	struct box_proc proc;
	struct err err;
	(void)argc;
	in_state(dir, sizeof dir, argv[0], "");
	name_group(group, sizeof group, argv[0]);
	load(argv[0], &proc);
	return box_stop(argv[0], dir, group, &proc, &err) < 0 ? fail(&err) : 0;
}

static int remove_box(int argc, char **argv)
{
	static const char *const ends[] = { ".sock", ".log", ".proc" };
	char path[4200];
	struct err err;
	(void)argc;
	in_state(path, sizeof path, argv[0], "");
	if (box_remove(path, &err) < 0)
		return fail(&err);
	for (size_t i = 0; i < COUNT(ends); i++) {
		in_state(path, sizeof path, argv[0], ends[i]);
		unlink(path);
	}
	return 0;
}

/* --- measuring ------------------------------------------------------------------------------- */

/* Sends `true` to a box, which need not listen yet. */
static int send_true(const char *path)
{
	static const char request[] = "POST /v1/bash/exec HTTP/1.1\r\nHost: localhost\r\n"
				      "Content-Type: application/json\r\nConnection: close\r\n"
				      "Content-Length: 18\r\n\r\n{\"command\":\"true\"}";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path, path, strlen(path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
	    write(fd, request, sizeof request - 1) != sizeof request - 1) {
		perror(path);
		exit(1);
	}
	return fd;
}

static bool is_done(int fd)
{
	char text[65536];
	size_t len = 0;
	for (ssize_t n; (n = read(fd, text + len, sizeof text - 1 - len)) > 0;)
		len += (size_t)n;
	text[len] = 0;
	close(fd);
	if (strstr(text, "\"exit_code\":0"))
		return true;
	fprintf(stderr, "driver: %s\n", text);
	return false;
}

/* COUNT boxes at once, each answered; then all of them are unmade. */
static int cycle(int argc, char **argv)
{
	int count = atoi(argv[0]);
	auto_free struct wanted *w = xcalloc((size_t)count, sizeof *w);
	auto_free char(*ids)[32] = xcalloc((size_t)count, sizeof *ids);
	auto_free int *replies = xcalloc((size_t)count, sizeof *replies),
		      *streams = xcalloc((size_t)count, sizeof *streams);
	struct box_proc proc;
	struct err err;
	bool good = true;
	if (box_makers(state, -1, &err) < 0)
		return fail(&err);
	for (int i = 0; i < count; i++) {
		snprintf(ids[i], sizeof ids[i], "bench%d", i);
		want(&w[i], ids[i], argc - 1, argv + 1);
		if ((replies[i] = box_ask(&w[i].spec, &err)) < 0)
			return fail(&err);
		streams[i] = send_true(w[i].socket);
	}
	for (int i = 0; i < count; i++) {
		if (box_answer(replies[i], &proc, &err) < 0)
			return fail(&err);
		good = is_done(streams[i]) && good;
		save(ids[i], &proc);
		close(w[i].spec.listen_fd);
		close(w[i].spec.log_fd);
	}
	for (int i = 0; i < count; i++) {
		char *id = ids[i];
		good = stop(1, &id) == 0 && remove_box(1, &id) == 0 && good;
	}
	return good ? 0 : 1;
}

static int freeze(const char *id, bool frozen)
{
	char group[128];
	struct err err;
	name_group(group, sizeof group, id);
	return box_freeze(group, frozen, &err) < 0 ? fail(&err) : 0;
}

static int freeze_box(int argc, char **argv)
{
	(void)argc;
	return freeze(argv[0], true);
}

static int thaw_box(int argc, char **argv)
{
	(void)argc;
	return freeze(argv[0], false);
}

static int usage(int argc, char **argv)
{
	char dir[4200], group[128];
	struct box_proc proc;
	struct box_usage u;
	struct err err;
	(void)argc;
	in_state(dir, sizeof dir, argv[0], "");
	name_group(group, sizeof group, argv[0]);
	load(argv[0], &proc);
	if (box_usage(dir, group, &proc, &u, &err) < 0)
		return fail(&err);
	printf("{\"cpu_us\": %" PRId64 ", \"memory\": %" PRId64 ", \"memory_peak\": %" PRId64
	       ", \"pids\": %" PRId64 ", \"disk\": %" PRId64 ", \"oom_kills\": %" PRId64
	       ", \"rx_bytes\": %" PRId64 ", \"tx_bytes\": %" PRId64 ", \"exit_status\": %d}\n",
	       u.cpu_us, u.memory, u.memory_peak, u.pids, u.disk, u.oom_kills, u.rx_bytes,
	       u.tx_bytes, box_exit_status(dir));
	return 0;
}

static int copy(int argc, char **argv)
{
	char from[4200], to[4200];
	struct err err;
	if (argc < 2)
		return 2;
	in_state(from, sizeof from, argv[0], "");
	in_state(to, sizeof to, argv[1], "");
	mkdir(to, 0700);
	return box_copy(from, NULL, to, 0, &err) < 0 ? fail(&err) : 0;
}

static int snapshot(int argc, char **argv)
{
	char from[4200], to[4200];
	struct err err;
	if (argc < 2)
		return 2;
	in_state(from, sizeof from, argv[0], "");
	in_state(to, sizeof to, argv[1], "");
	return box_snapshot(from, NULL, NULL, to, &err) < 0 ? fail(&err) : 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "start", start },       { "stop", stop },         { "remove", remove_box },
	{ "freeze", freeze_box }, { "thaw", thaw_box },     { "usage", usage },
	{ "copy", copy },         { "snapshot", snapshot }, { "cycle", cycle },
};

int main(int argc, char **argv)
{
	struct box_means means;
	struct err err;
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], MAKER_COMMAND))
		return maker_main(argc - 1, argv + 1, cmd_serve);
	state = argv[1];
	mkdir(state, 0711);
	if (box_probe(state, &means, &err) < 0)
		return fail(&err);
	if (!strcmp(argv[2], "probe")) {
		fputs(means.text, stdout);
		return means.usable ? 0 : 1;
	}
	for (size_t i = 0; i < COUNT(commands); i++)
		if (argc > 3 && !strcmp(argv[2], commands[i].name))
			return commands[i].run(argc - 3, argv + 3);
	return 2;
}
