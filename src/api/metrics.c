/* What the server counts, as Prometheus text. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/modules.h"
#include "api/routes.h"
#include "base/clock.h"
#include "net/call.h"
#include "net/server.h"
#include "service/service.h"
#include "session/sessions.h"

static void put_family(struct buf *to, const char *name, const char *type, const char *help)
{
	buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_number(struct buf *to, const char *name, const char *type, const char *help,
		       double value)
{
	put_family(to, name, type, help);
	buf_printf(to, "%s %.15g\n", name, value);
}

static uint64_t answers(const struct route_stats *stats)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < COUNT(stats->answers); i++)
		sum += stats->answers[i];
	return sum;
}

static void put_requests(struct buf *to, const char *method, const char *path,
			 const struct route_stats *stats)
{
	for (size_t i = 0; i < COUNT(stats->answers); i++)
		if (stats->answers[i])
			buf_printf(
				to,
				"aio_requests_total{method=\"%s\",route=\"%s\",status=\"%zuxx\"} %llu\n",
				method, path, i, (unsigned long long)stats->answers[i]);
}

static void put_latency(struct buf *to, const char *method, const char *path,
			const struct route_stats *stats)
{
	unsigned long long sum = 0;
	if (!answers(stats))
		return;
	for (size_t i = 0; i <= LATENCY_BUCKETS; i++) {
		char limit[24] = "+Inf";
		if (i < LATENCY_BUCKETS)
			snprintf(limit, sizeof limit, "%g", (double)latency_bucket_us[i] / 1e6);
		sum += stats->buckets[i];
		buf_printf(
			to,
			"aio_request_seconds_bucket{method=\"%s\",route=\"%s\",le=\"%s\"} %llu\n",
			method, path, limit, sum);
	}
	buf_printf(to, "aio_request_seconds_sum{method=\"%s\",route=\"%s\"} %.6f\n", method, path,
		   (double)stats->total_us / 1e6);
	buf_printf(to, "aio_request_seconds_count{method=\"%s\",route=\"%s\"} %llu\n", method, path,
		   sum);
}

static void for_all_routes(struct buf *to, struct router *router,
			   void (*put)(struct buf *, const char *, const char *,
				       const struct route_stats *))
{
	for (size_t i = 0; i < router->count; i++)
		put(to, router->entries[i].route->method, router->entries[i].route->path,
		    &router->entries[i].stats);
	put(to, "", "none", &router->unmatched);
}

/* Of this process, from /proc: resident and virtual memory in bytes. */
static void put_memory(struct buf *to)
{
	unsigned long long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return;
	if (fscanf(file, "%llu %llu", &size, &resident) == 2) {
		unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
		put_number(to, "process_resident_memory_bytes", "gauge", "Resident memory.",
			   (double)(resident * page));
		put_number(to, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
			   (double)(size * page));
	}
	fclose(file);
}

static void put_load(struct buf *to, struct server *server)
{
	struct server_load load = server_load(server);
	put_number(to, "aio_connections", "gauge", "Open connections.", (double)load.connections);
	put_number(to, "aio_connections_parked", "gauge",
		   "Open connections that wait without a thread.", (double)load.parked);
	put_number(to, "aio_connection_threads", "gauge",
		   "Threads that serve connections, or wait to.", (double)load.threads);
	put_number(to, "aio_connection_threads_idle", "gauge", "Those of them that wait to.",
		   (double)load.idle_threads);
}

static void put_service_counter(struct buf *to, const char *name, const char *help,
				const struct service_info *list, size_t count, size_t at)
{
	put_family(to, name, "counter", help);
	for (size_t i = 0; i < count; i++)
		buf_printf(to, "%s{name=\"%s\"} %llu\n", name, list[i].name,
			   (unsigned long long)*(const uint64_t *)((const char *)&list[i] + at));
}

void metrics_services(struct buf *to, struct arena *arena)
{
	struct service_info *list;
	size_t count = service_list(arena, &list);
	put_family(to, "aio_services", "gauge",
		   "Services, by name and state: 1 for the one it is in.");
	for (size_t i = 0; i < count; i++)
		for (size_t n = 0; service_state_names[n]; n++)
			buf_printf(to, "aio_services{name=\"%s\",state=\"%s\"} %d\n", list[i].name,
				   service_state_names[n], list[i].state == n);
	put_service_counter(to, "aio_service_starts_total", "Starts of services.", list, count,
			    offsetof(struct service_info, starts));
	put_service_counter(to, "aio_service_failures_total", "Starts of services that failed.",
			    list, count, offsetof(struct service_info, failures));
}

static int metrics(struct call *call, const void *in, struct err *err)
{
	(void)in;
	struct server *server = call->server;
	auto_buf struct buf text = BUF(16 << 20);
	put_family(&text, "aio_info", "gauge", "The version.");
	buf_printf(&text, "aio_info{version=\"%s\"} 1\n", AIO_VERSION);
	put_number(&text, "aio_uptime_seconds", "gauge", "Since the start.",
		   (double)(clock_ms() - server->started_ms) / 1000);
	put_load(&text, server);
	put_number(&text, "aio_connections_accepted_total", "counter", "Accepted connections.",
		   (double)server->accepted);
	put_number(&text, "aio_connections_refused_total", "counter",
		   "Connections refused for lack of room.", (double)server->refused);
	put_family(&text, "aio_requests_total", "counter", "Requests answered.");
	for_all_routes(&text, &server->router, put_requests);
	put_family(&text, "aio_request_seconds", "histogram",
		   "From a request's head to the end of its answer.");
	for_all_routes(&text, &server->router, put_latency);
	put_family(&text, "aio_sessions", "gauge", "Sessions that are open, by kind.");
	for (size_t i = 0; i < modules_count; i++)
		if (modules[i].sessions)
			buf_printf(&text, "aio_sessions{kind=\"%s\"} %zu\n",
				   modules[i].sessions->kind, sessions_count(modules[i].sessions));
	for (size_t i = 0; i < modules_count; i++)
		if (modules[i].metrics)
			modules[i].metrics(&text, call->arena);
	put_memory(&text);
	return call_text(call, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len,
			 err);
}

static const struct route routes[] = {
	{ "GET", "/metrics", metrics, NULL, NULL, "Metrics for Prometheus", .flags = BARE,
	  .type = "text/plain" },
};
const struct route_group metrics_group = { "metrics", "What the server counts.", routes,
					   COUNT(routes) };
