#include "egress/veth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/rules.h"
#include "proc/utility.h"

enum { CONNECTIONS_MAX = 4096 };

/* As the box's network knows what it is to tell. */
#define REFUSE "reject with icmpx admin-prohibited"

static int run_ip(const char *batch, struct err *err)
{
	char *argv[] = { (char *)"ip", (char *)"-batch", (char *)"-", NULL };
	return utility_run("ip", "iproute2", argv, batch, UTILITY_MS, err);
}

static int run_nft(const char *rules, struct err *err)
{
	char *argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
	return utility_run("nft", "nftables", argv, rules, UTILITY_MS, err);
}

/* The box's four addresses are 10.213.0.0/16 from 4 × number: its own is the third, ours the second. */
static void address(unsigned number, unsigned which, char *to, size_t room)
{
	unsigned at = number * 4 + which;
	snprintf(to, room, "10.213.%u.%u", at >> 8 & 255, at & 255);
}

/* An interface has at most 15 letters: "aiob", five for the host, and the number. */
struct name {
	char text[16];
};

static struct name prefix_of(uint32_t host)
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	struct name name = { "aiob" };
	for (int i = 4; i < 9; i++, host /= 36)
		name.text[i] = letters[host % 36];
	name.text[9] = '-';
	return name;
}

static struct name name_of(uint32_t host, unsigned number)
{
	struct name name = prefix_of(host);
	snprintf(name.text + 10, sizeof name.text - 10, "%u", number % VETH_MAX);
	return name;
}

/* The rules of all boxes of a host: made anew, they are the same. What a box sends to the machine itself
 * is input; to anybody else, forwarded. */
static int set_rules(uint32_t host, const char *nets, struct err *err)
{
	auto_buf struct buf rules = BUF(1 << 20);
	const struct name own = prefix_of(host);
	buf_printf(&rules,
		   "table inet aio_boxes_%08x\ndelete table inet aio_boxes_%08x\n"
		   "table inet aio_boxes_%08x {\n",
		   host, host, host);
	rules_sets(nets, &rules);
	buf_printf(&rules,
		   "\tset counts { type ipv4_addr; size 65535; flags dynamic; }\n"
		   "\tchain input { type filter hook input priority -5; iifname \"%s*\" " REFUSE
		   "; }\n"
		   "\tchain forward { type filter hook forward priority -5;\n"
		   "\t\toifname \"%s*\" ct state established,related accept\n"
		   "\t\toifname \"%s*\" " REFUSE "\n"
		   "\t\tiifname != \"%s*\" accept\n"
		   "\t\tmeta nfproto ipv6 " REFUSE "\n"
		   "\t\tct state new add @counts { ip saddr ct count over %d } drop\n"
		   "\t\tip daddr @open accept\n"
		   "\t\tip daddr @closed " REFUSE "\n\t}\n"
		   "\tchain out { type nat hook postrouting priority 100;\n"
		   "\t\tip saddr 10.213.0.0/16 oifname != \"aiob*\" masquerade\n\t}\n}\n",
		   own.text, own.text, own.text, own.text, CONNECTIONS_MAX);
	return run_nft(rules.data, err);
}

/* Docker closes forwarding for all but its own; accepting a packet in our chain does not help. */
static int check_forwarding(struct err *err)
{
	char *list[] = { (char *)"nft", (char *)"list",   (char *)"chain",
			 (char *)"ip",  (char *)"filter", (char *)"FORWARD",
			 NULL };
	struct err none;
	auto_close int fd = open("/proc/sys/net/ipv4/ip_forward", O_RDWR | O_CLOEXEC);
	char now = '0';
	if (fd < 0 || pread(fd, &now, 1, 0) != 1 || (now != '1' && pwrite(fd, "1", 1, 0) != 1))
		return err_set(err, errno, "turn on net.ipv4.ip_forward");
	auto_buf struct buf said = BUF(1 << 16);
	if (utility_read("nft", list, &said, UTILITY_MS, &none) == 0 && said.len &&
	    strstr(said.data, "policy drop") && !strstr(said.data, "aiob"))
		return err_set(err, ERR_UNAVAILABLE,
			       "network 'full': this machine's firewall drops what it forwards "
			       "(Docker does so): iptables -I FORWARD -i 'aiob+' -j ACCEPT; "
			       "iptables -I FORWARD -o 'aiob+' -j ACCEPT");
	return 0;
}

static int run_batch(void *batch, struct err *err)
{
	return run_ip(batch, err);
}

/* The batch runs inside the box's network. */
static int run_inside(pid_t pid, char *batch, struct err *err)
{
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
	return egress_visit(path, run_batch, batch, err);
}

/* Between the rules and the interface that needs them, nobody may take the rules away. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int remove_link(struct name link, struct err *err)
{
	char path[64], batch[64];
	snprintf(path, sizeof path, "/sys/class/net/%s", link.text);
	snprintf(batch, sizeof batch, "link delete %s\n", link.text);
	return access(path, F_OK) == 0 ? run_ip(batch, err) : 0;
}

/* Only what comes from the box's own address: answers to what it sends as another would be let in there. */
static int refuse_others(struct name link, struct err *err)
{
	char path[96];
	snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/rp_filter", link.text);
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		return err_set(err, errno, "'%s'", path);
	return 0;
}

static int add_link(uint32_t host, unsigned number, pid_t pid, const char *nets, struct err *err)
{
	char ours[20], its[20], batch[512];
	const struct name link = name_of(host, number);
	address(number, 1, ours, sizeof ours);
	address(number, 2, its, sizeof its);
	if (check_forwarding(err) < 0 || set_rules(host, nets, err) < 0 ||
	    remove_link(link, err) < 0)
		return -1;
	snprintf(batch, sizeof batch,
		 "link add %s type veth peer name eth0 netns %d\n"
		 "address add %s/30 dev %s\nlink set %s up\n",
		 link.text, pid, ours, link.text, link.text);
	if (run_ip(batch, err) < 0)
		return -1;
	snprintf(
		batch, sizeof batch,
		"link set lo up\naddress add %s/30 dev eth0\nlink set eth0 up\nroute add default via %s\n",
		its, ours);
	if (refuse_others(link, err) == 0 && run_inside(pid, batch, err) == 0)
		return 0;
	(void)remove_link(link, NULL);
	return -1;
}

int veth_open(uint32_t host, unsigned number, pid_t pid, const char *nets, struct err *err)
{
	if (number >= VETH_MAX)
		return err_set(err, ERR_LIMIT, "more than %d boxes with a network", VETH_MAX);
	pthread_mutex_lock(&one_at_a_time);
	int result = add_link(host, number, pid, nets, err);
	pthread_mutex_unlock(&one_at_a_time);
	return result;
}

static bool any_link(uint32_t host)
{
	bool found = false;
	const struct name own = prefix_of(host);
	DIR *links = opendir("/sys/class/net");
	for (struct dirent *entry; links && (entry = readdir(links));)
		found = found || !strncmp(entry->d_name, own.text, strlen(own.text));
	if (links)
		closedir(links);
	return found;
}

int veth_close(uint32_t host, unsigned number, struct err *err)
{
	char batch[64];
	snprintf(batch, sizeof batch, "delete table inet aio_boxes_%08x\n", host);
	pthread_mutex_lock(&one_at_a_time);
	int result = remove_link(name_of(host, number), err);
	if (!any_link(host))
		(void)run_nft(batch, NULL);
	pthread_mutex_unlock(&one_at_a_time);
	return result;
}
