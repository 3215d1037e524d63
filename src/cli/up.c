/* aio up and aio down: the host of this machine. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/own.h"
#include "base/wait.h"
#include "cli/commands.h"
#include "host/default_box.h"
#include "host/host.h"
#include "host/rootless.h"

enum { DOWN_MS = 60000 };

/* What it can reach: who opens a page in its browser, or installs a package, looks here first. */
static void say_default(const struct host *host, const char *mode)
{
	bool automatic = host->config->network == HOST_NETWORK_AUTO;
	if (strcmp(mode, "none") != 0)
		printf("box 'default', network %s%s; ", mode,
		       !strcmp(mode, "full") ? ": public addresses only" : "");
	else if (*host->no_full)
		printf("box 'default', without a network: %s; ", host->no_full);
	else
		printf("box 'default', without a network%s; ", automatic ? ", as it was made" : "");
}

static void say_ready(struct host *host)
{
	const char *mode = default_box_mode(host);
	double cpus = host->config->limits.cpus;
	if (*host->means.text)
		fprintf(stderr, "%s%-12s %s\n", host->means.text, "full network",
			host->full ? host->full : "none: a box with it is refused");
	if (cpus > 0) /* it was percent once */
		fprintf(stderr, "%-12s %g core%s\n", "default box", cpus, cpus > 1 ? "s" : "");
	fputc('\n', stderr);
	printf("aio %s is ready: %s  (", AIO_VERSION, host->listener.url);
	if (mode)
		say_default(host, mode);
	printf("API explorer %s/v1/docs, terminal %s/terminal; 'aio ls' lists boxes)\n",
	       host->listener.url, host->listener.url);
	fflush(stdout);
}

static void say_ending(bool with_boxes, size_t boxes)
{
	bool one = boxes == 1;
	if (!boxes)
		return;
	if (with_boxes)
		fprintf(stderr,
			"\naio up: ending %zu box%s; %s files stay. The next 'aio up' starts 'default' "
			"again, 'aio resume BOX' any other\n",
			boxes, one ? "" : "es", one ? "its" : "their");
	else
		fprintf(stderr,
			"\naio up: %zu box%s run%s on without a host; the next 'aio up' takes %s back, "
			"'aio down' ends %s\n",
			boxes, one ? "" : "es", one ? "s" : "", one ? "it" : "them",
			one ? "it" : "them");
}

static void block_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

static int failed(const struct err *err, bool hint)
{
	fprintf(stderr, "aio up: %s\n", err->msg);
	if (hint)
		fprintf(stderr, "'aio serve' runs one sandbox without isolation, as any user.\n");
	return err->code == ERR_INVALID ? 2 : 1;
}

int cmd_up(int argc, char **argv)
{
	static struct host_config config;
	struct err err = { 0 };
	for (int i = 1; i < argc; i++) {
		bool markdown = !strcmp(argv[i], "--help-markdown");
		if (markdown || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			(markdown ? opt_help_markdown : opt_help)(&host_options);
			return 0;
		}
	}
	block_signals();
	int used = opt_parse(&host_options, argc, argv, &config, &err);
	if (used < 0)
		return failed(&err, false);
	if (used < argc) {
		fprintf(stderr, "aio up: unexpected argument '%s' (see --help)\n", argv[used]);
		return 2;
	}
	if (geteuid() != 0 && rootless_enter(config.state, argv, &err) < 0)
		return failed(&err, true);
	log_setup((enum log_level)config.log_level, (enum log_format)config.log_format);
	if (host_run(&config, say_ready, say_ending, &err) < 0)
		return failed(&err, err.code == ERR_UNAVAILABLE);
	return 0;
}

struct down {
	const char *state;
	bool keep;
};
static const struct opt down_options[] = {
	{ "state", "AIO_STATE", OPT_STR, offsetof(struct down, state), "/var/lib/aiobox", "DIR",
	  "State directory of the host.", 0, 0 },
	{ "keep-boxes", NULL, OPT_BOOL, offsetof(struct down, keep), "false", NULL,
	  "Leave the boxes running; the next 'aio up' takes them back.", 0, 0 },
};
static const struct opt_table down_table = {
	"aio down [--state DIR] [--keep-boxes]",
	"Ends the host of this machine and its boxes, whose files stay: the next 'aio up' has them.",
	down_options, COUNT(down_options)
};

/* A pidfd of the host, unless it has ended; errno says why. */
static int open_host(const char *state, int *ret_pid)
{
	auto_free char *path = xasprintf("%s/lock", state);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	/* Nobody holds it: who wrote the number is gone, and the number may be another's. */
	if (flock(fileno(file), LOCK_SH | LOCK_NB) == 0 || fscanf(file, "%d", ret_pid) != 1)
		*ret_pid = 0;
	fclose(file);
	errno = ESRCH;
	auto_close int pidfd = *ret_pid > 0 ? (int)syscall(SYS_pidfd_open, *ret_pid, 0) : -1;
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
	return pidfd < 0 || poll(&pfd, 1, 0) != 0 ? -1 : TAKE_FD(pidfd);
}

static int no_host(const struct down *down)
{
	bool denied = errno == EACCES || errno == EPERM;
	fprintf(stderr, "aio down: no host runs on '%s'%s%s\n", down->state, denied ? ": " : "",
		denied ? strerror(errno) : "");
	return 1;
}

/* The host was killed, and its boxes go on without it. */
static int end_left(const struct down *down, char **argv)
{
	int why = errno;
	struct err err;
	size_t count = 0;
	auto_free char *store = xasprintf("%s/store.db", down->state);
	bool known = access(store, R_OK) == 0;
	errno = why;
	if (down->keep || !known)
		return no_host(down);
	if ((geteuid() != 0 && rootless_enter(down->state, argv, &err) < 0) ||
	    host_end_left(down->state, &count, &err) < 0) {
		fprintf(stderr, "aio down: %s\n", err.msg);
		return 1;
	}
	if (!count)
		return no_host(down);
	printf("no host runs on '%s': ended %zu box%s that it had left\n", down->state, count,
	       count > 1 ? "es" : "");
	return 0;
}

int cmd_down(int argc, char **argv)
{
	struct down down = { 0 };
	struct err err;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			opt_help(&down_table);
			return 0;
		}
	}
	int used = opt_parse(&down_table, argc, argv, &down, &err);
	if (used >= 0 && used < argc)
		err_set(&err, ERR_INVALID, "unexpected argument '%s' (see --help)", argv[used]);
	if (used != argc) {
		fprintf(stderr, "aio down: %s\n", err.msg);
		return 2;
	}
	int pid = 0;
	auto_close int pidfd = open_host(down.state, &pid);
	if (pidfd < 0)
		return end_left(&down, argv);
	if (syscall(SYS_pidfd_send_signal, pidfd, down.keep ? SIGTERM : SIGINT, NULL, 0) < 0)
		return no_host(&down);
	if (!wait_until(pidfd, POLLIN, clock_ms() + DOWN_MS)) {
		fprintf(stderr, "aio down: the host (process %d) does not end\n", pid);
		return 1;
	}
	puts(down.keep
		     ? "the host has ended; its boxes run on, and the next 'aio up' takes them back"
		     : "the host has ended, and its boxes with it; their files stay: the next 'aio up' "
		       "starts 'default' again, 'aio resume BOX' any other");
	return 0;
}
