#include "host/denials.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/group.h"
#include "egress/attempts.h"
#include "host/history.h"
#include "host/host.h"
#include "host/run.h"
#include "net/offline.h"
#include "net/unasked.h"

void denials_start(struct host *host)
{
	struct err err;
	auto_close int groups = group_open();
	host->attempts = attempts_open(groups, &err);
	if (!host->attempts)
		log_info("addresses that boxes without a network try are not seen: %s", err.msg);
}

void denials_stop(struct host *host)
{
	attempts_close(host->attempts);
	host->attempts = NULL;
}

void denials_watch(struct host *host, struct box *box)
{
	char cgroup[64];
	if (!host->attempts || run_network(box->spec) != BOX_NETWORK_NONE)
		return;
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	box->group = group_number(cgroup);
	if (box->group)
		attempts_watch(host->attempts, box->group);
}

void denials_forget(struct host *host, struct box *box)
{
	uint64_t group = atomic_exchange(&box->group, 0);
	if (host->attempts && group)
		attempts_forget(host->attempts, group);
}

static void report(struct host *host, struct box *box, const struct attempt *attempt)
{
	char name[INET6_ADDRSTRLEN], thing[INET6_ADDRSTRLEN + 16];
	if (IN6_IS_ADDR_V4MAPPED(&attempt->to))
		inet_ntop(AF_INET, &attempt->to.s6_addr[12], name, sizeof name);
	else
		inet_ntop(AF_INET6, &attempt->to, name, sizeof name);
	snprintf(thing, sizeof thing, "%s %u", name, attempt->port);
	if (!box->attempts)
		box->attempts = xcalloc(1, sizeof *box->attempts);
	int64_t times = rate_limit_ask(box->attempts, thing, clock_ms());
	const struct history_denied event = {
		.time = (double)host_now_ms() / 1000,
		.host = name,
		.port = attempt->port,
		.reason = OFFLINE_REASON,
		.times = times,
	};
	if (times && boxes_state(&host->boxes, box) != BOX_DELETED)
		history_add(host, box, HISTORY_DENIED, &event);
}

void denials_report(struct host *host, struct box **list, size_t count)
{
	struct attempt attempt;
	for (int i = 0;
	     host->attempts && i < ATTEMPTS_MAX && attempts_next(host->attempts, &attempt); i++)
		for (size_t n = 0; n < count; n++)
			if (list[n]->group == attempt.group &&
			    !unasked_address(&attempt.to, attempt.port))
				report(host, list[n], &attempt);
}
