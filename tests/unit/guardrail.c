#include <string.h>

#include "observe/guardrail.h"
#include "observe/sample.h"
#include "tap.h"

/* A sandbox in which nothing is out of order. */
static struct sample_disk disk;
static struct sample calm(int64_t at_ms)
{
	disk = (struct sample_disk){ .usage_pct = 50, .inode_usage_pct = 50 };
	return (struct sample){
		.at_ms = at_ms,
		.cpus = 2,
		.cgroup = { .cpu_usage_pct = 100,
			    .mem_usage_pct = 50,
			    .cpu_nr_periods = at_ms / 100,
			    .oom_kill = 4 },
		.tasks = 50,
		.tasks_max = 100,
		.zombies = 3,
		.disk = { 1, &disk },
	};
}

static void memory(struct sample *s, double value)
{
	s->cgroup.mem_usage_pct = value;
}

static void cpu(struct sample *s, double value)
{
	s->cgroup.cpu_usage_pct = 2 * value;
}

static void throttled(struct sample *s, double value)
{
	s->cgroup.cpu_nr_throttled = (int64_t)((double)s->at_ms / 100 * value / 100);
}

static void tasks(struct sample *s, double value)
{
	s->tasks = (int64_t)value;
}

static void disk_full(struct sample *s, double value)
{
	(void)s;
	disk.usage_pct = value;
}

static void inodes(struct sample *s, double value)
{
	(void)s;
	disk.inode_usage_pct = value;
}

static void fork_storm(struct sample *s, double value)
{
	s->started = (int64_t)value; /* samples are a second apart */
}

static void oom_kill(struct sample *s, double value)
{
	s->cgroup.oom_kill += (int64_t)(value * (double)s->at_ms / 1000);
}

static void zombies(struct sample *s, double value)
{
	s->zombies = (int64_t)value;
}

static const struct {
	const char *name;
	void (*set)(struct sample *s, double value);
	double below, at;
	int64_t hold_ms;
} cases[] = {
	{ "memory", memory, 89, 91, 10000 },
	{ "cpu", cpu, 94, 96, 60000 },
	{ "throttled", throttled, 40, 60, 30000 },
	{ "tasks", tasks, 89, 90, 0 },
	{ "disk", disk_full, 94, 95, 0 },
	{ "inodes", inodes, 94, 95, 0 },
	{ "fork_storm", fork_storm, 299, 300, 3000 },
	{ "oom_kill", oom_kill, 0, 1, 0 },
	{ "zombies", zombies, 99, 100, 10000 },
};

static struct {
	int count;
	char name[32], message[160];
} seen;

static void trip(void *arg, const struct guardrail_rule *rule, const char *message)
{
	(void)arg;
	seen.count++;
	snprintf(seen.name, sizeof seen.name, "%s", rule->name);
	snprintf(seen.message, sizeof seen.message, "%s", message);
}

/* Samples a second apart, of which all have the value: how many trips. */
static int run(struct guardrail_state *state, size_t i, double value, int64_t from_ms, int64_t ms)
{
	struct sample before = calm(from_ms);
	cases[i].set(&before, value);
	seen.count = 0;
	for (int64_t at = from_ms + 1000; at <= from_ms + ms; at += 1000) {
		struct sample now = calm(at);
		cases[i].set(&now, value);
		guardrail_check(state, &now, &before, trip, NULL);
		before = now;
	}
	return seen.count;
}

static void check_rule(size_t i)
{
	struct guardrail_state state = { 0 };
	CHECK(run(&state, i, cases[i].below, 1000000, 200000) == 0);
	/* Not before its time, then once, however long it goes on. */
	if (cases[i].hold_ms)
		CHECK(run(&state, i, cases[i].at, 2000000, cases[i].hold_ms) == 0);
	CHECK(run(&state, i, cases[i].at, 2000000 + cases[i].hold_ms, 5000) == 1);
	CHECK(!strcmp(seen.name, cases[i].name) && strstr(seen.message, "(rule: "));
	CHECK(run(&state, i, cases[i].at, 2100000, 200000) == 0);
	/* Again after it was in order. */
	CHECK(run(&state, i, cases[i].below, 2400000, 5000) == 0);
	CHECK(run(&state, i, cases[i].at, 2500000, cases[i].hold_ms + 5000) == 1);
}

int main(void)
{
	CHECK(guardrail_count == COUNT(cases));
	for (size_t i = 0; i < COUNT(cases); i++)
		check_rule(i);

	/* One that comes and goes is not reported more than once a minute. */
	struct guardrail_state state = { 0 };
	int trips = 0;
	for (int64_t at = 1000; at < 60000; at += 2000) {
		trips += run(&state, 4, 99, 1000000 + at, 1000);
		trips += run(&state, 4, 10, 1000000 + at + 1000, 1000);
	}
	CHECK(trips == 1);

	/* What is not counted is no reason. */
	struct guardrail_state none = { 0 };
	struct sample bare = { .cgroup = { .cpu_usage_pct = NAN,
					   .mem_usage_pct = NAN,
					   .cpu_nr_periods = INT_ABSENT,
					   .oom_kill = INT_ABSENT },
			       .tasks = INT_ABSENT,
			       .tasks_max = INT_ABSENT,
			       .started = INT_ABSENT };
	seen.count = 0;
	for (int64_t at = 1000; at < 100000; at += 1000) {
		struct sample before = bare;
		bare.at_ms = at;
		guardrail_check(&none, &bare, at > 1000 ? &before : NULL, trip, NULL);
	}
	CHECK(seen.count == 0);
	return tap_done();
}
