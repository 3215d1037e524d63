/* floor.c - the least that a box can cost: every namespace, an id-mapped overlay of the machine's root,
 * pivot_root and exec, with nothing checked, limited or kept.
 *   floor DIR COUNT    runs /bin/true in COUNT such boxes, one after the other; milliseconds of each */
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BASE = 600000000, RANGE = 65536 };
#define MUST(call) ((call) < 0 ? (perror(#call), exit(1)) : (void)0)

static void write_file(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	MUST(write(fd, text, len));
	close(fd);
}

/* The trees below `root`, seen through the ids of a user namespace. */
static int mapped(const char *path, int user_ns)
{
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_ns };
	MUST(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr));
	return tree;
}

/* The first process of the box. It shares its descriptors with its maker until it runs the program. */
static void inside(int ready, const char *dir)
{
	char options[256];
	int fds[2];
	MUST(read(ready, fds, sizeof fds) - (ssize_t)sizeof fds);
	MUST(setresgid(0, 0, 0) | setresuid(0, 0, 0));
	for (int i = 0; i < 2; i++) /* an overlay takes layers of its own mount namespace only */
		MUST(syscall(SYS_move_mount, fds[i], "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH));
	snprintf(options, sizeof options,
		 "userxattr,lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
		 "workdir=/proc/self/fd/%d/work",
		 fds[0], fds[1], fds[1]);
	MUST(mount("box", dir, "overlay", 0, options));
	MUST(chdir(dir));
	MUST(syscall(SYS_pivot_root, ".", "."));
	MUST(umount2(".", MNT_DETACH));
	MUST(execl("/bin/true", "true", NULL));
}

static void box(const char *dir)
{
	char path[64], map[64];
	int ready[2], status;
	MUST(pipe2(ready, O_CLOEXEC));
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_FILES,
		.exit_signal = SIGCHLD,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		inside(ready[0], dir);
	MUST(pid);
	int len = snprintf(map, sizeof map, "0 %d %d", BASE, RANGE);
	snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
	write_file(path, map, (size_t)len);
	snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
	write_file(path, map, (size_t)len);
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	int user_ns = open(path, O_RDONLY | O_CLOEXEC);
	int fds[2] = { mapped("/", user_ns), mapped(dir, user_ns) };
	MUST(write(ready[1], fds, sizeof fds));
	MUST(waitpid(pid, &status, 0));
	if (status != 0)
		fprintf(stderr, "floor: status %d\n", status), exit(1);
	int all[] = { ready[0], ready[1], user_ns, fds[0], fds[1] };
	for (int i = 0; i < 5; i++)
		close(all[i]);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 1;
	MUST(argc > 1 ? chdir(argv[1]) : -1);
	MUST(unshare(CLONE_NEWNS));
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	char dir[4096];
	for (int i = 0; i < count; i++) {
		struct timespec a, b;
		snprintf(dir, sizeof dir, "%s/floor.XXXXXX", argv[1]);
		clock_gettime(CLOCK_MONOTONIC, &a);
		if (!mkdtemp(dir) || chdir(dir) < 0)
			return 1;
		mkdir("upper", 0755), mkdir("work", 0755);
		box(dir);
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%.3f\n",
		       (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	}
	return 0;
}
