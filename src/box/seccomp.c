#include "box/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
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
static const struct seccomp_denied {
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
	{ 425, ENOSYS },          /* io_uring_setup: programs go on without */
	{ 426, ENOSYS },          /* io_uring_enter */
	{ 427, ENOSYS },          /* io_uring_register */
	{ SYS_io_setup, ENOSYS }, /* the machine has 65,536 of these, whoever takes them */
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
/* Of the internet's, unless the socket is a raw one: for any other the kernel would load a module. */
static const int protocols_allowed[] = { 0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP,
					 IPPROTO_ICMPV6 };
static const uint32_t ioctls_denied[] = { TIOCSTI, TIOCLINUX };

/* Options of sockets, answered as by a kernel without them. Whoever makes a network namespace may use the
 * tables in it: kernel code with a history. Socket filters are programs, of which the machine can have so
 * many, whoever loads them; without room for one, no box could load this filter. */
static const struct seccomp_range {
	uint32_t level, first, last;
} sockopts_denied[] = {
	{ SOL_IP, 64, 67 },     /* iptables */
	{ SOL_IP, 96, 99 },     /* arptables */
	{ SOL_IP, 128, 131 },   /* ebtables */
	{ SOL_IP, 1152, 1167 }, /* IPVS */
	{ SOL_IPV6, 64, 65 },   /* ip6tables; 66 and 67 are others' */
	{ SOL_IPV6, 68, 69 },
	{ SOL_SOCKET, SO_ATTACH_FILTER, SO_ATTACH_FILTER },
	{ SOL_SOCKET, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF },
};

enum {
	/* Chromium's own sandbox makes user, pid and network namespaces, and needs no others. */
	NEVER_CLONED = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP,
	NEVER_UNSHARED = NEVER_CLONED | CLONE_NEWTIME,
};

/* --- the program ------------------------------------------------------------------------------
 * Written from its end to its beginning: where a jump leads is then known when it is written. The
 * kernel walks through it for every call when a process loads it, so calls are looked up in a tree. */

enum { ROOM = 256, CASES = 96, LINEAR = 3 };

struct seccomp_program {
	struct sock_filter code[ROOM];
	unsigned short at; /* of the first instruction yet */
	unsigned short allow, eperm, enosys, eafnosupport, enoprotoopt, eprotonosupport;
};

/* What is done for one call. */
struct filter_case {
	uint32_t number;
	unsigned short to;
};

static unsigned short put(struct seccomp_program *p, struct sock_filter instruction)
{
	if (!p->at)
		abort(); /* ROOM is also as far as a jump reaches */
	p->code[--p->at] = instruction;
	return p->at;
}

static unsigned short load(struct seccomp_program *p, size_t offset)
{
	return put(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The low half: what these calls take are ints. */
static unsigned short load_argument(struct seccomp_program *p, int index)
{
	return load(p, offsetof(struct seccomp_data, args) + (size_t)index * sizeof(uint64_t));
}

static unsigned short give(struct seccomp_program *p, uint32_t answer)
{
	return put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static unsigned short branch(struct seccomp_program *p, int test, uint32_t value,
			     unsigned short yes, unsigned short no)
{
	return put(p, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | test | BPF_K), value,
						   (uint8_t)(yes - p->at), (uint8_t)(no - p->at)));
}

static unsigned short check_flags(struct seccomp_program *p, uint32_t never)
{
	branch(p, BPF_JSET, never, p->eperm, p->allow);
	return load_argument(p, 0);
}

static unsigned short check_socket(struct seccomp_program *p)
{
	unsigned short next = p->eafnosupport;
	for (size_t i = 0; i < COUNT(netlink_allowed); i++)
		next = branch(p, BPF_JEQ, (uint32_t)netlink_allowed[i], p->allow, next);
	unsigned short netlink = load_argument(p, 2);
	next = p->eprotonosupport;
	for (size_t i = 0; i < COUNT(protocols_allowed); i++)
		next = branch(p, BPF_JEQ, (uint32_t)protocols_allowed[i], p->allow, next);
	next = load_argument(p, 2);
	for (unsigned flags = 0; flags < 4; flags++)
		next = branch(p, BPF_JEQ,
			      SOCK_RAW | (flags & 1 ? SOCK_NONBLOCK : 0) |
				      (flags & 2 ? SOCK_CLOEXEC : 0),
			      p->allow, next);
	unsigned short internet = load_argument(p, 1);
	next = branch(p, BPF_JEQ, AF_NETLINK, netlink, p->eafnosupport);
	next = branch(p, BPF_JEQ, AF_INET6, internet, next);
	next = branch(p, BPF_JEQ, AF_INET, internet, next);
	branch(p, BPF_JEQ, AF_UNIX, p->allow, next);
	return load_argument(p, 0);
}

static unsigned short check_ioctl(struct seccomp_program *p)
{
	unsigned short next = p->allow;
	for (size_t i = 0; i < COUNT(ioctls_denied); i++)
		next = branch(p, BPF_JEQ, ioctls_denied[i], p->eperm, next);
	return load_argument(p, 1);
}

static unsigned short check_sockopt(struct seccomp_program *p)
{
	unsigned short next = p->allow;
	for (size_t i = COUNT(sockopts_denied); i--;) {
		const struct seccomp_range *range = &sockopts_denied[i];
		branch(p, BPF_JGT, range->last, next, p->enoprotoopt);
		branch(p, BPF_JGE, range->first, p->at, next);
		unsigned short option = load_argument(p, 2);
		branch(p, BPF_JEQ, range->level, option, next);
		next = load_argument(p, 1);
	}
	return next;
}

static int by_number(const void *a, const void *b)
{
	const struct filter_case *first = a, *second = b;
	return first->number < second->number ? -1 : first->number > second->number;
}

static unsigned short look_up(struct seccomp_program *p, const struct filter_case *cases,
			      size_t count)
{
	unsigned short next = p->allow;
	if (count > LINEAR) {
		size_t half = count / 2;
		unsigned short upper = look_up(p, cases + half, count - half);
		unsigned short lower = look_up(p, cases, half);
		return branch(p, BPF_JGE, cases[half].number, upper, lower);
	}
	while (count--)
		next = branch(p, BPF_JEQ, cases[count].number, cases[count].to, next);
	return next;
}

static void compile(struct seccomp_program *p)
{
	struct filter_case cases[CASES];
	size_t count = 0;
	p->at = ROOM;
	p->allow = give(p, SECCOMP_RET_ALLOW);
	p->eperm = give(p, SECCOMP_RET_ERRNO | EPERM);
	p->enosys = give(p, SECCOMP_RET_ERRNO | ENOSYS);
	p->eafnosupport = give(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	p->enoprotoopt = give(p, SECCOMP_RET_ERRNO | ENOPROTOOPT);
	p->eprotonosupport = give(p, SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
	unsigned short socket = check_socket(p), sockopt = check_sockopt(p);
	const struct filter_case checked[] = {
		{ SYS_clone, check_flags(p, NEVER_CLONED) },
		{ SYS_unshare, check_flags(p, NEVER_UNSHARED) },
		{ SYS_socket, socket },
		{ SYS_socketpair, socket },
		{ SYS_ioctl, check_ioctl(p) },
		{ SYS_setsockopt, sockopt },
		{ SYS_getsockopt, sockopt },
	};
	_Static_assert(COUNT(denied) + COUNT(checked) <= CASES, "room for all");
	for (size_t i = 0; i < COUNT(checked); i++)
		cases[count++] = checked[i];
	for (size_t i = 0; i < COUNT(denied); i++)
		cases[count++] =
			(struct filter_case){ (uint32_t)denied[i].number,
					      denied[i].code == EPERM ? p->eperm : p->enosys };
	qsort(cases, count, sizeof *cases, by_number);
	unsigned short known = look_up(p, cases, count);
	branch(p, BPF_JGT, LAST_KNOWN, p->enosys, known); /* those of x32 too */
	unsigned short number = load(p, offsetof(struct seccomp_data, nr));
	/* Another architecture's calls: other numbers, other holes. */
	branch(p, BPF_JEQ, ARCH, number, p->enosys);
	load(p, offsetof(struct seccomp_data, arch));
}

/* --- the seal ---------------------------------------------------------------------------------
 * For those of our processes in a box that start no program. The files there are the box's: what they
 * would load of them, libraries and their plug-ins, is code that root in the box has written. PCRE2's
 * compiler goes without executable memory too, and its interpreter does the work: what can be both
 * written and run helps an attacker more than it does those who search without ripgrep. */

static const struct sealed {
	int number, argument;
	uint32_t flag; /* of the argument, that is refused; 0: the call is */
} sealed[] = {
	{ SYS_execve, 0, 0 },
	{ SYS_execveat, 0, 0 },
	{ SYS_mmap, 2, PROT_EXEC },
	{ SYS_mprotect, 2, PROT_EXEC },
	{ SYS_pkey_mprotect, 2, PROT_EXEC },
	{ SYS_shmat, 2, SHM_EXEC },
	{ SYS_personality, 0, 0 }, /* which can make all memory executable that can be read */
};

static unsigned short check_sealed(struct seccomp_program *p, const struct sealed *call)
{
	if (!call->flag)
		return p->eperm;
	branch(p, BPF_JSET, call->flag, p->eperm, p->allow);
	return load_argument(p, call->argument);
}

static void compile_seal(struct seccomp_program *p)
{
	struct filter_case cases[COUNT(sealed)];
	p->at = ROOM;
	p->allow = give(p, SECCOMP_RET_ALLOW);
	p->eperm = give(p, SECCOMP_RET_ERRNO | EPERM);
	for (size_t i = 0; i < COUNT(sealed); i++)
		cases[i] = (struct filter_case){ (uint32_t)sealed[i].number,
						 check_sealed(p, &sealed[i]) };
	qsort(cases, COUNT(sealed), sizeof *cases, by_number);
	look_up(p, cases, COUNT(sealed));
	load(p, offsetof(struct seccomp_data, nr)); /* the other filter has seen the architecture */
}

/* --- loading --------------------------------------------------------------------------------- */

static struct seccomp_program program, seal; /* the same for every box */

void seccomp_prepare(void)
{
	if (program.at)
		return;
	compile(&program);
	compile_seal(&seal);
}

static int install(const struct seccomp_program *p, struct err *err)
{
	struct sock_fprog filter = { (unsigned short)(ROOM - p->at),
				     (struct sock_filter *)p->code + p->at };
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
		return err_set(err, errno, "seccomp");
	return 0;
}

int seccomp_load(struct err *err)
{
	seccomp_prepare();
	return install(&program, err);
}

int seccomp_seal(struct err *err)
{
	seccomp_prepare();
	return install(&seal, err);
}

int seccomp_load_alone(struct err *err)
{
	static const int never[] = {
		SYS_execve,  SYS_execveat, SYS_clone,   SYS_clone3,     SYS_socket, SYS_setsid,
		SYS_setpgid, SYS_ptrace,   SYS_unshare, SYS_socketpair, SYS_prctl,
#ifdef __x86_64__
		SYS_fork,    SYS_vfork,
#endif
	};
	struct seccomp_program p = { .at = ROOM };
	unsigned short next = p.allow = give(&p, SECCOMP_RET_ALLOW);
	p.eperm = give(&p, SECCOMP_RET_ERRNO | EPERM);
	for (size_t i = 0; i < COUNT(never); i++)
		next = branch(&p, BPF_JEQ, (uint32_t)never[i], p.eperm, next);
	load(&p, offsetof(struct seccomp_data, nr));
	return install(&p, err);
}
