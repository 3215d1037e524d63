#include "egress/pasta.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/rules.h"
#include "proc/pid_file.h"
#include "proc/utility.h"

enum { CONNECTIONS_MAX = 4096 };

bool pasta_can(void)
{
	return access("/usr/bin/pasta", X_OK) == 0 && access("/dev/net/tun", R_OK | W_OK) == 0;
}

static void add_machine(struct buf *rules)
{
	struct ifaddrs *all = NULL;
	(void)getifaddrs(&all);
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		char text[INET_ADDRSTRLEN];
		struct sockaddr_in in;
		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&in, at->ifa_addr, sizeof in);
		if (inet_ntop(AF_INET, &in.sin_addr, text, sizeof text))
			buf_printf(rules, ", %s", text);
	}
	freeifaddrs(all);
}

/* As those of veth.c, but where the box sends: what it would send to the machine goes to pasta, which
 * would call the machine itself. So the machine's addresses are closed as they are now. After the rules of
 * net.c, which tell of what they refuse; of what is refused here, the answer is told. */
static void write_rules(const char *nets, struct buf *rules)
{
	buf_str(rules, "table inet aio_full\ndelete table inet aio_full\ntable inet aio_full {\n"
		       "\tset machine { type ipv4_addr; flags interval; auto-merge; elements = { "
		       "127.0.0.0/8");
	add_machine(rules);
	buf_str(rules, " }; }\n");
	rules_sets(nets, rules);
	buf_printf(rules,
		   "\tchain out { type filter hook output priority 10;\n"
		   "\t\toifname \"lo\" accept\n"
		   "\t\tmeta nfproto ipv6 reject\n"
		   "\t\tip daddr @machine reject with icmpx admin-prohibited\n"
		   "\t\tct state new ct count over %d drop\n"
		   "\t\tip daddr @open accept\n"
		   "\t\tip daddr @closed reject\n\t}\n"
		   "\tchain in { type filter hook input priority 0;\n"
		   "\t\tiifname \"lo\" accept\n"
		   "\t\tct state established,related accept\n"
		   "\t\tdrop\n\t}\n}\n",
		   CONNECTIONS_MAX);
}

static int set_rules(void *arg, struct err *err)
{
	char *argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
	return utility_run("nft", "nftables", argv, arg, UTILITY_MS, err);
}

static char *pid_path(const char *dir)
{
	return xasprintf("%s/pasta.pid", dir);
}

/* It may not open the network of a process itself, so it gets a file that is one. Each box has the
 * same addresses: nobody else is in its network. */
static int run_pasta(const char *dir, const char *netns, struct err *err)
{
	auto_free char *place = xasprintf("%s/netns", dir), *note = pid_path(dir);
	const char *argv[] = {
		"pasta", "--config-net", "--no-map-gw", "--no-netns-quit",
		"-4",    "-q",           "-t",          "none",
		"-u",    "none",         "-T",          "none",
		"-U",    "none",         "-a",          "10.213.0.2",
		"-n",    "30",           "-g",          "10.213.0.1",
		"-I",    "eth0",         "--runas",     "0:0",
		"-P",    note,           "--netns",     place,
		NULL,
	};
	auto_close int fd = open(place, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || mount(netns, place, NULL, MS_BIND, NULL) < 0)
		return err_set(err, errno, "'%s'", place);
	int result = utility_run("pasta", "passt", (char *const *)argv, NULL, UTILITY_MS, err);
	(void)umount2(place, MNT_DETACH);
	(void)unlink(place);
	return result;
}

static int write_all(const char *netns, const char *nets, struct err *err)
{
	auto_buf struct buf rules = BUF(1 << 20);
	write_rules(nets, &rules);
	return egress_visit(netns, set_rules, rules.data, err);
}

static void name_netns(pid_t pid, char to[40])
{
	snprintf(to, 40, "/proc/%d/ns/net", pid);
}

int pasta_open(const char *dir, pid_t pid, const char *nets, struct err *err)
{
	char netns[40];
	name_netns(pid, netns);
	pasta_close(dir);
	return write_all(netns, nets, err) < 0 ? -1 : run_pasta(dir, netns, err);
}

int pasta_update(pid_t pid, const char *nets, struct err *err)
{
	char netns[40];
	name_netns(pid, netns);
	return write_all(netns, nets, err);
}

bool pasta_runs(const char *dir)
{
	auto_free char *note = pid_path(dir); /* which is one of its arguments */
	return pid_file_runs(note, note);
}

void pasta_close(const char *dir)
{
	auto_free char *note = pid_path(dir);
	pid_file_kill(note, note);
}
