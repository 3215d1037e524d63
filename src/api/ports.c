#include "api/ports.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "journal/journal.h"
#include "journal/mask.h"
#include "kernel/kernel.h"
#include "net/server.h"
#include "outbound/outbound.h"
#include "proc/cradle.h"
#include "proc/user.h"

enum { SOCKETS_MAX = 4096, DEPTH_MAX = 64 };

/* A socket that listened at the last look. */
struct port {
	struct listening is;
	bool shown; /* it is a program's: there was an event */
	bool seen;  /* in the look that goes on */
};

static struct {
	pthread_mutex_t lock;
	struct port all[SOCKETS_MAX]; /* pages that are not used cost nothing */
	size_t count, shown;
	int64_t looked_ms;
} ports = { .lock = PTHREAD_MUTEX_INITIALIZER };

void ports_forget_own(const struct server *server, bool *listening)
{
	struct sockaddr_storage own = { 0 };
	socklen_t len = sizeof own;
	kernel_forget_ports(listening);
	listening[server->inside.port] = false;
	listening[outbound_port() & (PORTS - 1)] = false;
	if (server->config)
		listening[server->config->browser_port & (PORTS - 1)] = false;
	if (getsockname(server->listen_fd, (struct sockaddr *)&own, &len) < 0)
		return;
	if (own.ss_family == AF_INET)
		listening[ntohs(((struct sockaddr_in *)&own)->sin_port)] = false;
	else if (own.ss_family == AF_INET6)
		listening[ntohs(((struct sockaddr_in6 *)&own)->sin6_port)] = false;
}

/* ---- whose they are ---- */

static pid_t parent_of(pid_t pid)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = 0;
	const char *end = strrchr(text, ')'); /* the name before it may hold anything */
	int parent = 0;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* The first stage, which is the parent of this process, adopts orphans: see stage.h. */
static bool descends(pid_t pid)
{
	for (int i = 0; i < DEPTH_MAX && pid > 1; i++) {
		if (pid == getpid() || pid == getppid())
			return true;
		pid = parent_of(pid);
	}
	return false;
}

static void find_owners(const struct server *server, struct listening *listeners, size_t count)
{
	struct user_view view;
	const struct user *user = user_sandbox(server->config->user, NULL);
	listening_find_owners(listeners, count);
	/* A box's server may not look at the descriptors of others, but the user may. */
	if (!user || user_enter(user, &view, NULL) < 0)
		return;
	listening_find_owners(listeners, count);
	user_leave(&view);
}

/* In a box all there is belongs to it. Elsewhere only what this server has started. */
static bool is_programs(const struct listening *it)
{
	return it->pid != getpid() && (cradle_is_used() || (it->pid && descends(it->pid)));
}

/* ---- looking ---- */

struct look {
	struct listening new[SOCKETS_MAX];
	size_t count;
};

static struct port *find_inode(unsigned long inode)
{
	for (size_t i = 0; i < ports.count; i++)
		if (ports.all[i].is.inode == inode)
			return &ports.all[i];
	return NULL;
}

static void note_listener(void *arg, const struct listening *it)
{
	struct look *look = arg;
	struct port *known = find_inode(it->inode);
	if (known && known->is.port == it->port)
		known->seen = true;
	else if (look->count + ports.count < SOCKETS_MAX)
		look->new[look->count++] = *it;
}

static void add_event(enum journal_kind kind, const struct listening *it)
{
	const struct journal_port event = { it->port, it->address, it->pid ? it->pid : INT_ABSENT,
					    *it->command ? it->command : NULL };
	journal_add(kind, &event);
}

/* Sockets that share one (SO_REUSEPORT) are one port. */
static bool is_twin(const struct listening *it)
{
	for (size_t i = 0; i < ports.count; i++)
		if (ports.all[i].shown && ports.all[i].is.port == it->port &&
		    !strcmp(ports.all[i].is.address, it->address))
			return true;
	return false;
}

static void drop_closed(void)
{
	size_t kept = 0;
	for (size_t i = 0; i < ports.count; i++) {
		struct port *it = &ports.all[i];
		if (it->seen) {
			it->seen = false;
			ports.all[kept++] = *it;
			continue;
		}
		ports.shown -= it->shown;
		if (it->shown)
			add_event(JOURNAL_PORT_CLOSED, &it->is);
	}
	ports.count = kept;
}

/* People see it, too, on the page for where there is no preview. */
static void mask_command(struct listening *it)
{
	char masked[sizeof it->command];
	size_t len = mask_text(it->command, strlen(it->command), masked, sizeof masked - 1);
	memcpy(it->command, masked, len);
	it->command[len] = 0;
}

static void add_new(const struct server *server, struct look *look)
{
	auto_free bool *others = xcalloc(PORTS, sizeof *others);
	memset(others, true, PORTS);
	ports_forget_own(server, others);
	find_owners(server, look->new, look->count);
	for (size_t i = 0; i < look->count; i++)
		mask_command(&look->new[i]);
	for (size_t i = 0; i < look->count; i++) {
		const struct listening *it = &look->new[i];
		bool shown = ports.shown < PORTS_SHOWN_MAX && others[it->port] && is_programs(it) &&
			     !is_twin(it);
		ports.all[ports.count++] = (struct port){ *it, shown, false };
		ports.shown += shown;
		if (shown)
			add_event(JOURNAL_PORT_OPENED, it);
	}
}

void ports_look(struct server *server, int min_ms)
{
	pthread_mutex_lock(&ports.lock);
	int64_t now_ms = clock_ms();
	if (!ports.looked_ms || now_ms >= ports.looked_ms + min_ms) {
		struct look *look = xmalloc(sizeof *look);
		look->count = 0;
		listening_each(note_listener, look);
		drop_closed();
		if (look->count)
			add_new(server, look);
		free(look);
		ports.looked_ms = now_ms;
	}
	pthread_mutex_unlock(&ports.lock);
}

static int by_port(const void *a, const void *b)
{
	const struct listening *x = a, *y = b;
	return (x->port > y->port) - (x->port < y->port);
}

size_t ports_list(struct arena *arena, struct listening **ret)
{
	size_t used = 0;
	pthread_mutex_lock(&ports.lock);
	struct listening *list = arena_alloc(arena, (ports.shown + 1) * sizeof *list);
	for (size_t i = 0; i < ports.count; i++)
		if (ports.all[i].shown)
			list[used++] = ports.all[i].is;
	pthread_mutex_unlock(&ports.lock);
	qsort(list, used, sizeof *list, by_port);
	*ret = list;
	return used;
}
