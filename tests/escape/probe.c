/* probe.c - attempts to get out of a box, run inside one:
 *   probe NAME…    a line for each: "NAME OK", "NAME errno-name" or "NAME text" */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a call said: 0, or its errno. */
static int said(long result)
{
	return result < 0 ? errno : 0;
}

/* The same from a child, for calls that change the caller. */
static int in_child(int (*try)(int), int argument)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(try(argument));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int try_unshare(int flags)
{
	return said(unshare(flags));
}

/* With a user namespace first, which gives every capability in it. */
static int try_nested(int flags)
{
	return unshare(CLONE_NEWUSER) < 0 ? 254 : said(unshare(flags));
}

static int try_nested_mount(int flags)
{
	(void)flags;
	return unshare(CLONE_NEWUSER) < 0 ? 254 : said(mount("x", "/mnt", "tmpfs", 0, NULL));
}

static int try_clone(int flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	int code = said(pid);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return code;
}

static int clone3_newns(void)
{
	uint64_t args[11] = { CLONE_NEWUSER | CLONE_NEWNS };
	return said(syscall(435, args, 64));
}

static int unshare_ns(void)
{
	return in_child(try_unshare, CLONE_NEWNS);
}
static int unshare_uts(void)
{
	return in_child(try_unshare, CLONE_NEWUTS);
}
static int unshare_ipc(void)
{
	return in_child(try_unshare, CLONE_NEWIPC);
}
static int unshare_cgroup(void)
{
	return in_child(try_unshare, CLONE_NEWCGROUP);
}
static int unshare_time(void)
{
	return in_child(try_unshare, 0x80);
}
static int unshare_user(void)
{
	return in_child(try_unshare, CLONE_NEWUSER);
}
static int nested_ns(void)
{
	return in_child(try_nested, CLONE_NEWNS);
}
static int nested_mount(void)
{
	return in_child(try_nested_mount, 0);
}
static int nested_net_pid(void)
{
	return in_child(try_nested, CLONE_NEWNET | CLONE_NEWPID);
}
static int clone_ns(void)
{
	return try_clone(CLONE_NEWUSER | CLONE_NEWNS);
}

static int mount_tmpfs(void)
{
	return said(mount("x", "/mnt", "tmpfs", 0, NULL));
}
static int mount_bind(void)
{
	return said(mount("/proc", "/mnt", NULL, MS_BIND, NULL));
}
static int remount_proc_sys(void)
{
	return said(mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL));
}
static int umount_mask(void)
{
	return said(umount2("/proc/keys", MNT_DETACH));
}
static int open_tree_root(void)
{
	return said(syscall(428, AT_FDCWD, "/", 1));
}
static int fsopen_tmpfs(void)
{
	return said(syscall(430, "tmpfs", 0));
}
static int move_mount_root(void)
{
	return said(syscall(429, AT_FDCWD, "/", AT_FDCWD, "/mnt", 0));
}
static int mount_setattr_root(void)
{
	uint64_t a[4] = { 0 };
	return said(syscall(442, AT_FDCWD, "/", 0, a, sizeof a));
}
static int pivot(void)
{
	return said(syscall(SYS_pivot_root, "/", "/mnt"));
}
static int setns_init(void)
{
	int fd = open("/proc/1/ns/mnt", O_RDONLY);
	return fd < 0 ? errno : said(setns(fd, 0));
}
static int setns_self(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY);
	return fd < 0 ? errno : said(setns(fd, 0));
}

static int load_module(void)
{
	return said(syscall(SYS_init_module, "x", 1, ""));
}
static int load_module_fd(void)
{
	return said(syscall(SYS_finit_module, 0, "", 0));
}
static int kexec(void)
{
	return said(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}
static int reboot_machine(void)
{
	return said(syscall(SYS_reboot, 0, 0, 0, NULL));
}
static int swap_on(void)
{
	return said(syscall(SYS_swapon, "/tmp/x", 0));
}
static int set_time(void)
{
	struct timespec t = { 1, 0 };
	return said(syscall(SYS_clock_settime, CLOCK_REALTIME, &t));
}
static int read_syslog(void)
{
	char text[64];
	return said(syscall(SYS_syslog, 3, text, sizeof text));
}
static int by_handle(void)
{
	char handle[64] = { 8 };
	return said(syscall(SYS_open_by_handle_at, AT_FDCWD, handle, 0));
}
static int port_io(void)
{
#ifdef __x86_64__
	return said(syscall(SYS_iopl, 3));
#else
	return EPERM;
#endif
}

static int keyctl_call(void)
{
	return said(syscall(SYS_keyctl, 0, -3, 1));
}
static int add_key_call(void)
{
	return said(syscall(SYS_add_key, "user", "x", "y", 1, -2));
}
static int bpf_call(void)
{
	union bpf_attr a = { 0 };
	a.map_type = BPF_MAP_TYPE_ARRAY;
	a.key_size = 4;
	a.value_size = 4;
	a.max_entries = 1;
	return said(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}
static int perf(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE, .size = sizeof a };
	return said(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}
static int userfaultfd_call(void)
{
	return said(syscall(SYS_userfaultfd, 1));
}
static int io_uring(void)
{
	char params[256] = { 0 };
	return said(syscall(425, 4, params));
}
/* Of those there are so many for the whole machine, whoever has them. */
static int aio_setup(void)
{
	unsigned long context = 0;
	return said(syscall(SYS_io_setup, 60000, &context));
}
static int future_call(void)
{
	return said(syscall(600));
}

static int family(int f, int type, int protocol)
{
	int fd = socket(f, type, protocol);
	int code = said(fd);
	if (fd >= 0)
		close(fd);
	return code;
}
static int af_packet(void)
{
	return family(AF_PACKET, SOCK_RAW, 0);
}
static int af_vsock(void)
{
	return family(AF_VSOCK, SOCK_STREAM, 0);
}
static int af_alg(void)
{
	return family(AF_ALG, SOCK_SEQPACKET, 0);
}
static int netfilter(void)
{
	return family(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}
static int netlink_route(void)
{
	return family(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}
static int af_inet(void)
{
	int code = family(AF_INET, SOCK_STREAM, 0);
	if (!code)
		code = family(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	return code ? code : family(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
}
static int mptcp(void)
{
	return family(AF_INET, SOCK_STREAM, 262);
}
static int udplite(void)
{
	return family(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE);
}
static int sctp(void)
{
	return family(AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP);
}
static int raw_socket(void) /* root's, whatever its protocol */
{
	int code = family(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_SCTP);
	return getuid() && code == EPERM ? 0 : code;
}

/* Options of sockets. The kernel says EBADF to all that the filter lets through. */
struct option {
	int level, first, last;
};
static int answer_option(const struct option *option, int name)
{
	char value[256] = "";
	socklen_t len = sizeof value;
	int set = said(setsockopt(-1, option->level, name, value, len));
	int get = said(getsockopt(-1, option->level, name, value, &len));
	return set == get ? set : 0;
}
/* Whether all of them get this answer. */
static int answer_all(const struct option *options, size_t count, int wanted)
{
	for (size_t i = 0; i < count; i++)
		for (int name = options[i].first; name <= options[i].last; name++)
			if (answer_option(&options[i], name) != wanted)
				return 0;
	return wanted;
}
static int closed_options(void)
{
	static const struct option closed[] = {
		{ SOL_IP, 64, 67 },     /* iptables */
		{ SOL_IP, 96, 99 },     /* arptables */
		{ SOL_IP, 128, 131 },   /* ebtables */
		{ SOL_IP, 1152, 1167 }, /* IPVS */
		{ SOL_IPV6, 64, 65 },   /* ip6tables */
		{ SOL_IPV6, 68, 69 },
		{ SOL_SOCKET, SO_ATTACH_FILTER, SO_ATTACH_FILTER },
		{ SOL_SOCKET, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF },
	};
	return answer_all(closed, sizeof closed / sizeof *closed, ENOPROTOOPT);
}
/* All others, and the same numbers at another level. */
static int open_options(void)
{
	static const struct option open[] = {
		{ SOL_IP, 1, 63 },      { SOL_IP, 68, 95 },      { SOL_IP, 100, 127 },
		{ SOL_IP, 132, 1151 },  { SOL_IP, 1168, 1200 },  { SOL_IPV6, 1, 63 },
		{ SOL_IPV6, 66, 67 },   { SOL_IPV6, 70, 300 },   { SOL_SOCKET, 1, 25 },
		{ SOL_SOCKET, 27, 49 }, { SOL_SOCKET, 53, 100 }, { SOL_TCP, 1, 100 },
		{ SOL_NETLINK, 1, 64 },
	};
	return answer_all(open, sizeof open / sizeof *open, EBADF) == EBADF ? 0 : EPERM;
}

/* As root of a network of its own, which anybody may make. The name of a table comes first. */
static int ask_table(int family, int level, int option)
{
	char value[4096] = "filter";
	socklen_t len = option == 128 ? 120 : 84; /* of ebtables, of the others */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 0;
	int fd = socket(family, SOCK_DGRAM, 0);
	return fd < 0 ? 0 : said(getsockopt(fd, level, option, value, &len));
}
static int nested_iptables(void)
{
	return ask_table(AF_INET, SOL_IP, 64);
}
static int nested_ip6tables(void)
{
	return ask_table(AF_INET6, SOL_IPV6, 64);
}
static int nested_iptables_by_ipv6(void)
{
	return ask_table(AF_INET6, SOL_IP, 64);
}
static int nested_arptables(void)
{
	return ask_table(AF_INET, SOL_IP, 96);
}
static int nested_ebtables(void)
{
	return ask_table(AF_INET, SOL_IP, 128);
}
/* The machine has one limit for all programs of this kind. */
static int attach(int name)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, ~0U);
	struct sock_fprog program = { 1, &all };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
		return 0;
	return said(setsockopt(fd, SOL_SOCKET, name, &program, sizeof program));
}
static int socket_filter(void)
{
	return attach(SO_ATTACH_FILTER);
}
static int reuseport_filter(void)
{
	return attach(SO_ATTACH_REUSEPORT_CBPF);
}

/* CVE-2017-5226: what is typed into the terminal that one was started on. */
static int tiocsti(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0;
	if (fd < 0)
		return errno;
	ioctl(fd, TIOCSPTLCK, &unlock);
	int other = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	return other < 0 ? errno : said(ioctl(other, TIOCSTI, "x"));
}

static int ptrace_init(void)
{
	return said(ptrace(PTRACE_ATTACH, 1, 0, 0));
}
static int ptrace_server(void)
{
	return said(ptrace(PTRACE_ATTACH, 2, 0, 0));
}
static int ptrace_cradle(void)
{
	return said(ptrace(PTRACE_ATTACH, 3, 0, 0));
}
static int read_server(void)
{
	char c;
	struct iovec l = { &c, 1 }, r = { (void *)0x10000, 1 };
	return said(process_vm_readv(2, &l, 1, &r, 1, 0));
}
static int take_descriptor(void)
{
	int fd = (int)syscall(434, 2, 0);
	return fd < 0 ? errno : said(syscall(438, fd, 3, 0));
}
/* CVE-2019-5736: the program that runs the box, through a process of it. */
static int write_exe_init(void)
{
	return said(open("/proc/1/exe", O_WRONLY));
}
static int write_exe_server(void)
{
	return said(open("/proc/2/exe", O_WRONLY));
}
static int write_program(void)
{
	return said(open("/usr/lib/aiobox/bin/aio", O_WRONLY));
}
static int replace_program(void)
{
	return said(rename("/usr/lib/aiobox/bin/aio", "/usr/lib/aiobox/bin/old"));
}
static int remove_program(void)
{
	return said(unlink("/usr/lib/aiobox/bin/aio"));
}
static int make_disk(void)
{
	return said(mknod("/tmp/probe-disk", S_IFBLK | 0600, makedev(254, 0)));
}
static int make_mem(void)
{
	return said(mknod("/tmp/probe-mem", S_IFCHR | 0600, makedev(1, 1)));
}

/* Calls of the other tables, whose numbers mean something else: the pid, if they are answered. */
static int call_i386(void)
{
#ifdef __x86_64__
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return result > 0 ? 0 : (int)-result;
#else
	return ENOSYS;
#endif
}
static int call_x32(void)
{
#ifdef __x86_64__
	return said(syscall(0x40000000 | SYS_getpid));
#else
	return ENOSYS;
#endif
}

/* The classic way out of a chroot, which must end at the box's own root. */
static int chroot_out(void)
{
	struct stat before, after;
	int fd = open("/", O_RDONLY | O_DIRECTORY);
	if (fd < 0 || fstat(fd, &before) < 0 ||
	    (mkdir("/tmp/probe-root", 0755) < 0 && errno != EEXIST))
		return errno;
	if (chroot("/tmp/probe-root") < 0)
		return errno;
	if (fchdir(fd) < 0)
		return errno;
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return errno;
	if (chroot(".") < 0 || stat("/", &after) < 0)
		return errno;
	return before.st_ino == after.st_ino && before.st_dev == after.st_dev ? EXDEV : 0;
}

/* CVE-2024-21626: a directory of the machine behind a descriptor that was left open. */
static int leaked_descriptor(void)
{
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	return EBADF;
}
static int leaked_cwd(void)
{
	char path[64], text[4096];
	for (int fd = 3; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		if (chdir(path) == 0)
			return 0;
	}
	return !getcwd(text, sizeof text) || strncmp(text, "(unreachable)", 13) == 0 ? 0 : ENOENT;
}

#define ROW(function)               \
	{                           \
#function, function \
	}
static const struct {
	const char *name;
	int (*run)(void);
} attempts[] = {
	ROW(mount_tmpfs),
	ROW(mount_bind),
	ROW(remount_proc_sys),
	ROW(umount_mask),
	ROW(open_tree_root),
	ROW(fsopen_tmpfs),
	ROW(move_mount_root),
	ROW(mount_setattr_root),
	ROW(pivot),
	ROW(setns_init),
	ROW(setns_self),
	ROW(clone3_newns),
	ROW(clone_ns),
	ROW(unshare_ns),
	ROW(unshare_uts),
	ROW(unshare_ipc),
	ROW(unshare_cgroup),
	ROW(unshare_time),
	ROW(unshare_user),
	ROW(nested_ns),
	ROW(nested_mount),
	ROW(nested_net_pid),
	ROW(load_module),
	ROW(load_module_fd),
	ROW(kexec),
	ROW(reboot_machine),
	ROW(swap_on),
	ROW(set_time),
	ROW(read_syslog),
	ROW(by_handle),
	ROW(port_io),
	ROW(keyctl_call),
	ROW(add_key_call),
	ROW(bpf_call),
	ROW(perf),
	ROW(userfaultfd_call),
	ROW(io_uring),
	ROW(aio_setup),
	ROW(future_call),
	ROW(af_packet),
	ROW(af_vsock),
	ROW(af_alg),
	ROW(netfilter),
	ROW(netlink_route),
	ROW(af_inet),
	ROW(mptcp),
	ROW(udplite),
	ROW(sctp),
	ROW(raw_socket),
	ROW(closed_options),
	ROW(open_options),
	ROW(nested_iptables),
	ROW(nested_ip6tables),
	ROW(nested_iptables_by_ipv6),
	ROW(nested_arptables),
	ROW(nested_ebtables),
	ROW(socket_filter),
	ROW(reuseport_filter),
	ROW(tiocsti),
	ROW(ptrace_init),
	ROW(ptrace_server),
	ROW(ptrace_cradle),
	ROW(read_server),
	ROW(take_descriptor),
	ROW(write_exe_init),
	ROW(write_exe_server),
	ROW(write_program),
	ROW(replace_program),
	ROW(remove_program),
	ROW(make_disk),
	ROW(make_mem),
	ROW(call_i386),
	ROW(call_x32),
	ROW(chroot_out),
	ROW(leaked_descriptor),
	ROW(leaked_cwd),
};

int main(int argc, char **argv)
{
	int all = argc < 2;
	for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
		int wanted = all;
		for (int n = 1; n < argc; n++)
			wanted |= !strcmp(argv[n], attempts[i].name);
		if (!wanted)
			continue;
		fflush(stdout);
		/* Each in a process of its own: some change what the next would find. */
		int status;
		pid_t pid = fork();
		if (pid == 0)
			_exit(attempts[i].run());
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status))
			printf("%s signal%d\n", attempts[i].name, WTERMSIG(status));
		else if (WEXITSTATUS(status) == 0)
			printf("%s OK\n", attempts[i].name);
		else
			printf("%s %s\n", attempts[i].name,
			       strerrorname_np(WEXITSTATUS(status)) ?: "?");
	}
	return 0;
}
