/* What a box uses. */
#include "base/own.h"
#include "host/host.h"
#include "host/network.h"
#include "host/sandboxes.h"
#include "net/call.h"
#include "net/route.h"

struct metrics {
	const char *state;
	double cpu_seconds;
	int64_t memory, memory_peak, pids, disk, oom_kills, network_received, network_sent,
		requests, connections;
};
static const struct field metrics_fields[] = {
	STR(metrics, state, REQUIRED, "creating, running, paused or stopped."),
	NUM(metrics, cpu_seconds, REQUIRED, "CPU time used so far."),
	INT(metrics, memory, REQUIRED, "Bytes in use."),
	INT(metrics, memory_peak, REQUIRED, "Most bytes in use at once."),
	INT(metrics, pids, REQUIRED, "Processes and threads."),
	INT(metrics, disk, REQUIRED, "Bytes on disk."),
	INT(metrics, oom_kills, REQUIRED, "Processes that were killed because memory ran out."),
	INT(metrics, network_received, REQUIRED, "Bytes."),
	INT(metrics, network_sent, REQUIRED, "Bytes."),
	INT(metrics, requests, REQUIRED, "Requests relayed to it since the host started."),
	INT(metrics, connections, REQUIRED, "Connections to its server."),
};
static const struct schema metrics_schema = SCHEMA(metrics, "SandboxMetrics", metrics_fields);
static const struct field metrics_data = { .type = T_OBJ, .of = &metrics_schema };

static int metrics(struct call *call, const void *in, struct err *err)
{
	const struct sandbox_id *request = in;
	struct host *host = host_of(call->server);
	struct box *box = sandbox_find(call, request->id, err);
	if (!box)
		return -1;
	char cgroup[64];
	struct box_usage usage = { 0 };
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	enum box_state state = boxes_state(&host->boxes, box);
	struct box_proc proc = boxes_proc(&host->boxes, box);
	if ((state == BOX_RUNNING || state == BOX_PAUSED) &&
	    box_usage(dir, cgroup, &proc, &usage, err) < 0)
		return -1;
	int64_t received, sent;
	network_bytes(dir, &received, &sent);
	struct metrics metrics = { .state = box_state_names[state],
				   .cpu_seconds = (double)usage.cpu_us / 1e6,
				   .memory = usage.memory,
				   .memory_peak = usage.memory_peak,
				   .pids = usage.pids,
				   .disk = usage.disk,
				   .oom_kills = usage.oom_kills,
				   .network_received = usage.rx_bytes + received,
				   .network_sent = usage.tx_bytes + sent,
				   .requests = (int64_t)box->requests,
				   .connections = box->streams };
	return call_reply(call, &metrics, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/sandboxes/{id}/metrics", metrics, &sandbox_id_schema, &metrics_data,
	  "What it uses" },
};
const struct route_group sandboxes_metrics_group = {
	"sandboxes", "Sandboxes of this host: for those who have its own token.", routes,
	COUNT(routes)
};
