#include "box/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no filter for this architecture"
#endif

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* Calls that this program knows. A newer kernel's are answered as an older one would. */
enum { LAST_KNOWN = 463 };

/* The numbers are the same on every architecture since 424. */
static const struct denied {
	int number, code;
} denied[] = {
	/* mounts: what is masked stays masked */
	{ SYS_mount, EPERM },
	{ SYS_umount2, EPERM },
	{ SYS_pivot_root, EPERM },
	{ 428, EPERM }, /* open_tree */
	{ 429, EPERM }, /* move_mount */
	{ 430, EPERM }, /* fsopen */
	{ 431, EPERM }, /* fsconfig */
	{ 432, EPERM }, /* fsmount */
	{ 433, EPERM }, /* fspick */
	{ 442, EPERM }, /* mount_setattr */
	{ 457, EPERM }, /* statmount */
	{ 458, EPERM }, /* listmount */
	{ SYS_swapon, EPERM },
	{ SYS_swapoff, EPERM },
	{ SYS_quotactl, EPERM },
	{ 443, EPERM }, /* quotactl_fd */
	{ SYS_name_to_handle_at, EPERM },
	{ SYS_open_by_handle_at, EPERM },
	{ SYS_fanotify_init, EPERM },
	/* namespaces; glibc goes on to clone when there is no clone3, whose flags no filter can see */
	{ SYS_setns, EPERM },
	{ SYS_clone3, ENOSYS },
	/* large and young parts of the kernel */
	{ SYS_bpf, EPERM },
	{ SYS_perf_event_open, EPERM },
	{ SYS_userfaultfd, EPERM },
	{ 425, ENOSYS }, /* io_uring_setup: programs go on without */
	{ 426, ENOSYS }, /* io_uring_enter */
	{ 427, ENOSYS }, /* io_uring_register */
	{ SYS_keyctl, EPERM },
	{ SYS_add_key, EPERM },
	{ SYS_request_key, EPERM },
	/* the machine itself */
	{ SYS_init_module, EPERM },
	{ SYS_finit_module, EPERM },
	{ SYS_delete_module, EPERM },
	{ SYS_kexec_load, EPERM },
#ifdef SYS_kexec_file_load
	{ SYS_kexec_file_load, EPERM },
#endif
	{ SYS_reboot, EPERM },
	{ SYS_acct, EPERM },
	{ SYS_syslog, EPERM },
	{ SYS_settimeofday, EPERM },
	{ SYS_clock_settime, EPERM },
	{ SYS_vhangup, EPERM },
	{ SYS_nfsservctl, ENOSYS },
	{ SYS_lookup_dcookie, EPERM },
	{ SYS_move_pages, EPERM },
	{ SYS_mbind, EPERM },
	{ SYS_migrate_pages, EPERM },
#ifdef __x86_64__
	{ SYS_iopl, EPERM },
	{ SYS_ioperm, EPERM },
	{ SYS_uselib, ENOSYS },
	{ SYS_ustat, ENOSYS },
	{ SYS_sysfs, ENOSYS },
	{ SYS__sysctl, ENOSYS },
	{ SYS_create_module, ENOSYS },
	{ SYS_get_kernel_syms, ENOSYS },
	{ SYS_query_module, ENOSYS },
#endif
};

/* Netlink protocols that may be spoken: routes and interfaces (getifaddrs), and device events. */
static const int netlink_allowed[] = { NETLINK_ROUTE, NETLINK_KOBJECT_UEVENT };
static const int families_allowed[] = { AF_UNIX, AF_INET, AF_INET6 };
static const uint32_t ioctls_denied[] = { TIOCSTI, TIOCLINUX };

enum {
	/* Chromium's own sandbox makes user, pid and network namespaces, and needs no others. */
	NEVER_CLONED = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP,
	NEVER_UNSHARED = NEVER_CLONED | CLONE_NEWTIME,
};

struct program {
	struct sock_filter code[256];
	unsigned short len;
};

static void add(struct program *p, struct sock_filter instruction)
{
	p->code[p->len++] = instruction;
}

static void load(struct program *p, size_t offset)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The low half: what these calls take are ints. */
static void load_argument(struct program *p, int index)
{
	load(p, offsetof(struct seccomp_data, args) + (size_t)index * sizeof(uint64_t));
}

static void refuse(struct program *p, int code)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code));
}

static void allow(struct program *p)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

/* Skips the next instruction unless the value is this, or has one of these bits. */
static void when(struct program *p, int test, uint32_t value)
{
	add(p, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | test | BPF_K), value, 0, 1));
}

/* Begins what is done for one call; end_case() ends it, with everything in between returning. */
static unsigned short begin_case(struct program *p, int number)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 0));
	return (unsigned short)(p->len - 1);
}

static void end_case(struct program *p, unsigned short begin)
{
	p->code[begin].jf = (uint8_t)(p->len - begin - 1);
}

static void add_flags_case(struct program *p, int number, uint32_t never)
{
	unsigned short begin = begin_case(p, number);
	load_argument(p, 0);
	when(p, BPF_JSET, never);
	refuse(p, EPERM);
	allow(p);
	end_case(p, begin);
}

static void add_socket_case(struct program *p, int number)
{
	unsigned short begin = begin_case(p, number);
	load_argument(p, 0);
	for (size_t i = 0; i < COUNT(families_allowed); i++) {
		when(p, BPF_JEQ, (uint32_t)families_allowed[i]);
		allow(p);
	}
	/* Not a netlink socket: skip to the refusal. */
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0,
					    1 + 2 * COUNT(netlink_allowed)));
	load_argument(p, 2);
	for (size_t i = 0; i < COUNT(netlink_allowed); i++) {
		when(p, BPF_JEQ, (uint32_t)netlink_allowed[i]);
		allow(p);
	}
	refuse(p, EAFNOSUPPORT);
	end_case(p, begin);
}

static void add_ioctl_case(struct program *p)
{
	unsigned short begin = begin_case(p, SYS_ioctl);
	load_argument(p, 1);
	for (size_t i = 0; i < COUNT(ioctls_denied); i++) {
		when(p, BPF_JEQ, ioctls_denied[i]);
		refuse(p, EPERM);
	}
	allow(p);
	end_case(p, begin);
}

static void compile(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	refuse(p, ENOSYS); /* another architecture's calls: other numbers, other holes */
	load(p, offsetof(struct seccomp_data, nr));
	when(p, BPF_JGT, LAST_KNOWN); /* those of x32 too */
	refuse(p, ENOSYS);
	for (size_t i = 0; i < COUNT(denied); i++) {
		when(p, BPF_JEQ, (uint32_t)denied[i].number);
		refuse(p, denied[i].code);
	}
	add_flags_case(p, SYS_clone, NEVER_CLONED);
	add_flags_case(p, SYS_unshare, NEVER_UNSHARED);
	add_socket_case(p, SYS_socket);
	add_socket_case(p, SYS_socketpair);
	add_ioctl_case(p);
	allow(p);
}

int seccomp_load(struct err *err)
{
	static struct program program; /* the same for every box */
	if (!program.len)
		compile(&program);
	struct sock_fprog filter = { program.len, program.code };
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
		return err_set(err, errno, "seccomp");
	return 0;
}
