#include "egress/egress.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/thread.h"

enum { EVENTS_MAX = 1 << 20 };

struct egress_visit {
	struct egress *egress;
	int client;
};

/* The reader, who is told, begins again where a file has become shorter. */
static void write_event(int fd, const char *line, size_t len)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_size > EVENTS_MAX)
		(void)!ftruncate(fd, 0);
	(void)!write(fd, line, len);
}

/* Names and reasons have no character that JSON would want escaped. */
void egress_denied(struct egress *egress, const char *name, unsigned port, const char *why)
{
	char line[512], thing[400];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(thing, sizeof thing, "%s %u %s", name, port, why);
	pthread_mutex_lock(&egress->lock);
	int64_t times = rate_limit_ask(&egress->denials, thing, clock_ms());
	int n = snprintf(line, sizeof line,
			 "{\"time\":%lld.%03ld,\"host\":\"%s\",\"port\":%u,"
			 "\"reason\":\"%s\",\"times\":%lld}\n",
			 (long long)now.tv_sec, now.tv_nsec / 1000000, name, port, why,
			 (long long)times);
	if (times && egress->events >= 0 && n > 0 && n < (int)sizeof line)
		write_event(egress->events, line, (size_t)n);
	pthread_mutex_unlock(&egress->lock);
}

static void *serve(void *arg)
{
	struct egress_visit visit = *(struct egress_visit *)arg;
	free(arg);
	egress_relay(visit.egress, visit.client);
	close(visit.client);
	visit.egress->connections--;
	return NULL;
}

static void admit(struct egress *egress, int client)
{
	struct egress_visit *visit = xmalloc(sizeof *visit);
	*visit = (struct egress_visit){ egress, client };
	if (atomic_fetch_add(&egress->connections, 1) < EGRESS_CONNECTIONS &&
	    thread_start(serve, visit) == 0)
		return;
	egress->connections--;
	close(client);
	free(visit);
}

void egress_run(struct egress *egress, int until)
{
	if (thread_start(egress_dns, egress) != 0 || thread_start(egress_refused, egress) != 0)
		return;
	for (;;) {
		struct pollfd wait[] = { { until, POLLIN, 0 },
					 { egress->relay, POLLIN, 0 },
					 { egress->carrier, 0, 0 } };
		if (poll(wait, COUNT(wait), -1) < 0 && errno != EINTR)
			return;
		if (wait[0].revents || wait[2].revents)
			return; /* the host starts another one where the box goes on */
		if (!wait[1].revents)
			continue;
		int client = accept4(egress->relay, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client >= 0)
			admit(egress, client);
		else if (errno != EINTR && errno != ECONNABORTED)
			poll(NULL, 0, 100); /* no descriptor or memory just now */
	}
}
