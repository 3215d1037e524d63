/* Machines with other hierarchies than this one: directories with the files of cgroup v2 and v1 stand for
 * them, in a mount namespace whose list of mounts names these. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "box/box.h"
#include "box/group.h"
#include "proc/limits.h"
#include "tap.h"

static char top[] = "/tmp/aio-group-XXXXXX";
static int failures;

enum { BOX_UID = 4321, USER = 65534 };

/* What a machine mounts, and what is in it: $1 is the controllers of its v2. The kernel would make the
 * files of a group with its directory. */
static const char make_machine[] =
	"set -e; cd $T; rm -rf *; "
	"put() { mkdir -p $1; for f in cgroup.procs cgroup.subtree_control cgroup.controllers "
	"cgroup.freeze memory.max memory.swap.max cpu.max pids.max; do : >$1/$f; done; "
	"echo max >$1/memory.max; echo 7 >$1/pids.current; }; "
	"for d in v2 v2/aiobox v2/aiobox/b v2/aiobox/b/server v2/aiobox/b/run v2/user v2/user/app "
	"v2/user/aiobox; do put $d; done; "
	"echo \"cpuset $1 misc\" >v2/cgroup.controllers; "
	"printf 'usage_usec 1234\\nuser_usec 1\\n' >v2/aiobox/b/cpu.stat; "
	"printf 'populated 0\\nfrozen 1\\n' >v2/aiobox/b/cgroup.events; "
	"echo 4096 >v2/aiobox/b/memory.current; echo 8192 >v2/aiobox/b/memory.peak; "
	"for d in b b/run; do printf 'low 0\\nhigh 0\\nmax 9\\noom 2\\noom_kill 3\\noom_group_kill 0\\n' "
	">v2/aiobox/$d/memory.events; done; "
	"for d in '' /aiobox /aiobox/b /aiobox/b/run; do mkdir -p cpu$d memory$d; "
	"for f in cpu/$d/cgroup.procs memory/$d/cgroup.procs cpu$d/cpu.cfs_quota_us "
	"memory$d/memory.limit_in_bytes; do : >$f; done; done; "
	"echo \"30 1 0:30 / $T/v2 rw - cgroup2 cgroup2 rw,nsdelegate\" >mounts; "
	"[ -z \"$2\" ] || for c in cpu memory; do "
	"echo \"31 1 0:31 / $T/$c rw - cgroup cgroup rw,$c\" >>mounts; done; "
	"echo 0::/user/app >own; chmod 755 .";

/* As CHECK, for children: who waits for one counts it. */
#define WANT(cond) want(cond, __LINE__, #cond)
static void want(bool ok, int line, const char *text)
{
	if (!ok)
		printf("# line %d: %s\n", line, text);
	failures += !ok;
}

static const char *says(const char *path)
{
	static char text[64];
	auto_free char *whole = xasprintf("%s/%s", top, path);
	auto_close int fd = open(whole, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	return n < 0 ? "no file" : text;
}

static int replace(const char *name, const char *path)
{
	auto_free char *whole = xasprintf("%s/%s", top, name);
	return mount(whole, path, NULL, MS_BIND, NULL);
}

/* Whether all that a child wants of a machine is so: what group.c finds, it finds once in a process. */
static bool holds(const char *controllers, bool v1, void (*look)(void))
{
	auto_free char *command = xasprintf("T=%s; set -- '%s' %s; %s", top, controllers,
					    v1 ? "v1" : "''", make_machine);
	int status = -1;
	if (system(command) != 0) /* NOLINT(cert-env33-c) */
		return false;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    replace("mounts", "/proc/self/mountinfo") ||
		    replace("own", "/proc/self/cgroup"))
			_exit(100);
		look();
		fflush(stdout);
		_exit(failures != 0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static int make_box(struct box_limits limits, struct cgroup *group, struct err *err)
{
	return group_make("b", &limits, "/", BOX_UID, group, err);
}

/* --- machines -------------------------------------------------------------------------------- */

static void look_at_v2(void)
{
	struct cgroup group;
	struct box_usage usage = { 0 };
	struct err err;
	struct stat st;
	const struct box_limits limits = { .memory = 128 << 20, .cpus = 0.5, .pids = 20 };
	WANT(group_setup(&err) == 0);
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		WANT(group_can(i) && !strcmp(group_means(i), "cgroup v2"));
	/* All boxes together leave an eighth of the machine to others. */
	WANT(strtoll(says("v2/aiobox/memory.max"), NULL, 10) == limit_machine_memory() / 8 * 7);
	WANT(make_box(limits, &group, &err) == 0);
	WANT(!strncmp(says("v2/aiobox/b/memory.max"), "402653184", 9));
	WANT(!strncmp(says("v2/aiobox/b/run/memory.max"), "134217728", 9));
	WANT(!strcmp(says("v2/aiobox/b/run/memory.swap.max"), "0"));
	WANT(!strcmp(says("v2/aiobox/b/run/cpu.max"), "50000 100000"));
	WANT(!strcmp(says("v2/aiobox/b/pids.max"), "1044"));
	WANT(!strcmp(says("v2/aiobox/b/run/pids.max"), "20"));
	WANT(!strcmp(says("v2/aiobox/b/server/pids.max"), ""));
	/* The first process is born in one group, and moves to nothing; commands are born in the other. */
	WANT(group.birth >= 0 && group.run >= 0);
	for (int i = 0; i < GROUP_CONTROLLERS; i++)
		WANT(group.own[i] < 0 && group.into[i] < 0);
	WANT(fstatat(group.run, "cgroup.procs", &st, 0) == 0 && st.st_uid == BOX_UID);
	WANT(fstatat(group.birth, "cgroup.procs", &st, 0) == 0 && st.st_uid == 0);
	/* Nothing above the group of commands can be reached from it. */
	WANT(fstatat(group.run, "../server", &st, 0) < 0 && errno == ENOENT);
	limits_use(&(struct limits){ 20, 128 << 20, group.pids, group.oom });
	WANT(limits_killed() == 3 && limits_fit(8) && !limits_fit(9) && limits_exceed(14));
	WANT(group_usage("b", &usage, &err) == 0);
	WANT(usage.cpu_us == 1234 && usage.pids == 7 && usage.memory == 4096);
	WANT(usage.memory_peak == 8192 && usage.oom_kills == 3);
	WANT(group_freeze("b", true, &err) == 0 && !strcmp(says("v2/aiobox/b/cgroup.freeze"), "1"));
	group_close(&group);
}

/* What systemd gives to users, if nobody asks for more. */
static void look_at_a_part(void)
{
	struct cgroup group;
	struct err err;
	WANT(group_setup(&err) == 0 && group_can(GROUP_MEMORY) && group_can(GROUP_PIDS));
	WANT(!group_can(GROUP_CPU) && !strncmp(group_means(GROUP_CPU), "none", 4));
	WANT(make_box((struct box_limits){ .cpus = 1 }, &group, &err) < 0 &&
	     err.code == ERR_NOT_IMPLEMENTED && strstr(err.msg, "'cpu'"));
	WANT(make_box((struct box_limits){ .io_weight = 5 }, &group, &err) < 0 &&
	     err.code == ERR_NOT_IMPLEMENTED);
	WANT(make_box((struct box_limits){ .pids = 20 }, &group, &err) == 0);
	WANT(!strcmp(says("v2/aiobox/b/run/pids.max"), "20"));
	WANT(!strcmp(says("v2/aiobox/b/run/memory.max"), "max\n"));
	WANT(!strcmp(says("v2/aiobox/b/run/cpu.max"), ""));
	group_close(&group);
}

static void look_at_one(const char *enable)
{
	struct cgroup group;
	struct err err;
	WANT(group_setup(&err) == 0 && make_box((struct box_limits){ 0 }, &group, &err) == 0);
	WANT(!strcmp(says("v2/cgroup.subtree_control"), enable));
	WANT(!strcmp(says("v2/aiobox/cgroup.subtree_control"), enable));
	WANT(!strcmp(says("v2/aiobox/b/cgroup.subtree_control"), enable));
	WANT(!strcmp(says("v2/aiobox/b/run/cgroup.subtree_control"), ""));
	group_close(&group);
}
static void look_at_memory(void)
{
	look_at_one("+memory");
}
static void look_at_cpu(void)
{
	look_at_one("+cpu");
}
static void look_at_pids(void)
{
	look_at_one("+pids");
}

/* A controller that is in both is used where v2 has it. */
static void look_at_both(void)
{
	struct cgroup group;
	struct err err;
	WANT(group_setup(&err) == 0);
	WANT(!strcmp(group_means(GROUP_MEMORY), "cgroup v2"));
	WANT(!strncmp(group_means(GROUP_CPU), "cgroup v1", 9));
	WANT(make_box((struct box_limits){ .memory = 1 << 20, .cpus = 2 }, &group, &err) == 0);
	WANT(group.own[GROUP_MEMORY] < 0 && group.into[GROUP_MEMORY] < 0);
	WANT(group.own[GROUP_CPU] >= 0 && group.into[GROUP_CPU] >= 0);
	WANT(!strncmp(says("v2/aiobox/b/run/memory.max"), "1048576", 7));
	WANT(!strcmp(says("memory/aiobox/b/run/memory.limit_in_bytes"), ""));
	WANT(!strcmp(says("cpu/aiobox/b/run/cpu.cfs_quota_us"), "200000"));
	WANT(!strcmp(says("v2/aiobox/b/run/cpu.max"), ""));
	group_close(&group);
}

/* An ordinary user, in a group below the one that is theirs. */
static void look_as_user(void)
{
	struct err err;
	char path[256];
	auto_free char *wanted = xasprintf("%s/v2/user/aiobox", top);
	auto_free char *give = xasprintf("chown -R %d %s/v2/user", USER, top);
	WANT(system(give) == 0); /* NOLINT(cert-env33-c) */
	WANT(seteuid(USER) == 0 && group_setup(&err) == 0);
	WANT(group_path(path, sizeof path) == 0 && !strcmp(path, wanted));
}

static void look_as_stranger(void)
{
	struct err err;
	WANT(seteuid(USER) == 0 && group_setup(&err) < 0 && strstr(err.msg, "cgroup v2"));
}

int main(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP only root can mount\n");
		return 0;
	}
	if (!mkdtemp(top))
		return 1;
	CHECK(holds("cpu io memory pids", false, look_at_v2));
	CHECK(holds("memory pids", false, look_at_a_part));
	CHECK(holds("memory", false, look_at_memory));
	CHECK(holds("cpu", false, look_at_cpu));
	CHECK(holds("pids", false, look_at_pids));
	CHECK(holds("memory", true, look_at_both));
	CHECK(holds("memory pids", false, look_as_user));
	CHECK(holds("memory pids", false, look_as_stranger));
	auto_free char *clean = xasprintf("rm -rf %s", top);
	return system(clean) || tap_done(); /* NOLINT(cert-env33-c) */
}
