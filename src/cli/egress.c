#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/opt.h"
#include "base/own.h"
#include "box/ids.h"
#include "box/seccomp.h"
#include "box/title.h"
#include "cli/commands.h"
#include "egress/carrier.h"
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/rules.h"

enum { NOBODY = 65534 };

/* What it may use: threads and descriptors for all the connections there can be. */
static const struct {
	int what;
	rlim_t most;
} limits[] = {
	{ RLIMIT_CORE, 0 },
	{ RLIMIT_NOFILE, 4096 },
	{ RLIMIT_NPROC, 1024 },
	{ RLIMIT_FSIZE, 8 << 20 },
};

struct options {
	const char *netns, *allow, *nets, *events, *counters;
	int64_t pid, user;
	bool forward, background;
};

static const struct opt opts[] = {
	{ "netns", NULL, OPT_STR, offsetof(struct options, netns), NULL, "FILE",
	  "The box's network namespace." },
	{ "pid", NULL, OPT_INT, offsetof(struct options, pid), NULL, "PID",
	  "A process of the box: with its end, this ends.", 1, INT32_MAX },
	{ "user", NULL, OPT_INT, offsetof(struct options, user), "65534", "UID",
	  "The user to be, of its own for this box.", 1, UINT32_MAX - 1 },
	{ "allow", NULL, OPT_STR, offsetof(struct options, allow), "", "NAMES",
	  "Names that may be reached: example.com,*.example.org,example.net:443." },
	{ "nets", NULL, OPT_STR, offsetof(struct options, nets), "", "NETS",
	  "Networks that may be reached though they are not public: 10.1.0.0/16." },
	{ "forward", NULL, OPT_BOOL, offsetof(struct options, forward), "false", NULL,
	  "Only answer DNS, by the machine's own servers." },
	{ "background", NULL, OPT_BOOL, offsetof(struct options, background), "false", NULL,
	  "Go on in the background, and tell the number of that process." },
	{ "events", NULL, OPT_STR, offsetof(struct options, events), NULL, "FILE",
	  "Where to tell what was denied." },
	{ "counters", NULL, OPT_STR, offsetof(struct options, counters), NULL, "FILE",
	  "Where to count bytes: two numbers of 64 bits, in and out." },
};
static const struct opt_table table = {
	"aio egress --netns FILE --pid PID --allow NAMES [options]",
	"Lets one box reach some names of the network. The host starts it.", opts, COUNT(opts)
};

static struct counters *map_counters(const char *path, struct err *err)
{
	auto_close int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (path && (fd < 0 || ftruncate(fd, sizeof(struct counters)) < 0)) {
		err_set(err, errno, "open '%s'", path);
		return NULL;
	}
	void *map = mmap(NULL, sizeof(struct counters), PROT_READ | PROT_WRITE,
			 path ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
	if (map == MAP_FAILED) {
		err_set(err, errno, "map '%s'", path ? path : "memory");
		return NULL;
	}
	return map;
}

/* It reads what boxes send: with as few rights as it can, and with none over others of its kind. In a user
 * namespace that has no such user, what is left is its root without capabilities. */
static int become_nobody(uid_t user, struct err *err)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	if (geteuid() == 0 && setgroups(0, NULL) < 0)
		return err_set(err, errno, "leave all groups");
	if (geteuid() == 0 && (ids_mapped() || user != NOBODY) &&
	    (setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0))
		return err_set(err, errno, "become user %u", user);
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct rlimit limit;
		if (getrlimit(limits[i].what, &limit) < 0)
			return err_set(err, errno, "limits");
		rlim_t most = limits[i].most < limit.rlim_max ? limits[i].most : limit.rlim_max;
		limit = (struct rlimit){ most, most };
		if (setrlimit(limits[i].what, &limit) < 0)
			return err_set(err, errno, "limits");
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "drop privileges");
	return seccomp_load(err);
}

static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
}

/* In the box's network, so that nobody who has an end of it has one in the machine's. */
static int open_pair(void *arg, struct err *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, arg) < 0)
		return err_set(err, errno, "socketpair");
	return 0;
}

/* What stays in the machine's network is another process. This one is in none from here on. */
static int split(const struct options *options, struct egress *egress, struct err *err)
{
	int pair[2];
	if (egress_visit(options->netns, open_pair, pair, err) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		if (options->background)
			leave_terminal();
		title_set("carrier");
		if (become_nobody((uid_t)options->user, err) == 0)
			carrier_run(egress->rules, options->forward, pair[1]);
		_exit(1);
	}
	close(pair[1]);
	egress->carrier = pair[0];
	if (pid < 0 || unshare(CLONE_NEWNET) < 0)
		return err_set(err, errno, "leave the machine's network");
	return 0;
}

static int start(const struct options *options, struct egress *egress, struct err *err)
{
	if (!options->netns || !options->pid)
		return err_set(err, ERR_INVALID, "--netns and --pid must be given");
	egress->forward = options->forward;
	egress->nets = options->nets;
	egress->names = names_new();
	egress->rules = rules_new(options->allow, options->nets, err);
	if (!egress->rules || split(options, egress, err) < 0)
		return -1;
	egress->events = options->events ? open(options->events,
						O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)
					 : -1;
	if (!(egress->counters = map_counters(options->counters, err)))
		return -1;
	if (options->events && egress->events < 0)
		return err_set(err, errno, "open '%s'", options->events);
	return egress_open(egress, options->netns, err) < 0
		       ? -1
		       : become_nobody((uid_t)options->user, err);
}

static void go_on_in_background(void)
{
	pid_t pid = fork();
	if (pid > 0) {
		printf("ready %d\n", pid);
		fflush(stdout);
		_exit(0);
	}
	setsid();
	leave_terminal();
}

int cmd_egress(int argc, char **argv)
{
	struct options options = { 0 };
	struct egress egress = { .dns = -1,
				 .relay = -1,
				 .carrier = -1,
				 .refused = -1,
				 .events = -1,
				 .lock = PTHREAD_MUTEX_INITIALIZER };
	struct err err = { 0 };
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		opt_help(&table);
		return 0;
	}
	title_init(argc, argv);
	int used = opt_parse(&table, argc, argv, &options, &err);
	if (used >= 0 && used < argc)
		used = err_set(&err, ERR_INVALID, "unexpected argument '%s'", argv[used]);
	auto_close int box = used < 0 ? -1 : (int)syscall(SYS_pidfd_open, (pid_t)options.pid, 0);
	if (used >= 0 && box < 0 && options.pid)
		used = err_set(&err, errno, "process %lld", (long long)options.pid);
	if (used < 0 || start(&options, &egress, &err) < 0) {
		fprintf(stderr, "aio egress: %s\n", err.msg);
		names_free(egress.names);
		rules_free(egress.rules);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (options.background)
		go_on_in_background();
	puts("ready");
	fflush(stdout);
	egress_run(&egress, box);
	_exit(0); /* its threads are at work still */
}
