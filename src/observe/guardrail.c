#include "observe/guardrail.h"

#include <math.h>
#include <stdio.h>

#include "base/own.h"
#include "observe/sample.h"

static double memory(const struct sample *now, const struct sample *before)
{
	(void)before;
	return now->cgroup.mem_usage_pct;
}

static double cpu(const struct sample *now, const struct sample *before)
{
	(void)before;
	return now->cpus > 0 ? now->cgroup.cpu_usage_pct / now->cpus : NAN;
}

static double throttled(const struct sample *now, const struct sample *before)
{
	if (!before || now->cgroup.cpu_nr_periods == INT_ABSENT ||
	    before->cgroup.cpu_nr_periods == INT_ABSENT)
		return NAN;
	int64_t periods = now->cgroup.cpu_nr_periods - before->cgroup.cpu_nr_periods;
	int64_t met = now->cgroup.cpu_nr_throttled - before->cgroup.cpu_nr_throttled;
	return periods > 0 ? 100.0 * (double)met / (double)periods : NAN;
}

static double tasks(const struct sample *now, const struct sample *before)
{
	(void)before;
	return now->tasks == INT_ABSENT || now->tasks_max == INT_ABSENT
		       ? NAN
		       : 100.0 * (double)now->tasks / (double)now->tasks_max;
}

/* The fullest. */
static double disk(const struct sample *now, const struct sample *before)
{
	double most = NAN;
	const struct sample_disk *list = now->disk.items;
	(void)before;
	for (size_t i = 0; i < now->disk.count; i++)
		most = fmax(most, list[i].usage_pct);
	return most;
}

static double inodes(const struct sample *now, const struct sample *before)
{
	double most = NAN;
	const struct sample_disk *list = now->disk.items;
	(void)before;
	for (size_t i = 0; i < now->disk.count; i++)
		most = fmax(most, list[i].inode_usage_pct);
	return most;
}

static double fork_storm(const struct sample *now, const struct sample *before)
{
	int64_t ms = before ? now->at_ms - before->at_ms : 0;
	return ms <= 0 || now->started == INT_ABSENT ? NAN
						     : (double)now->started * 1000 / (double)ms;
}

static double oom_kill(const struct sample *now, const struct sample *before)
{
	if (!before || now->cgroup.oom_kill == INT_ABSENT || before->cgroup.oom_kill == INT_ABSENT)
		return NAN;
	return (double)(now->cgroup.oom_kill - before->cgroup.oom_kill);
}

static double zombies(const struct sample *now, const struct sample *before)
{
	(void)before;
	return (double)now->zombies;
}

const struct guardrail_rule guardrail_rules[] = {
	/* clang-format off */
	{ "memory", 10000, 90, memory, "memory used of its limit", " %" },
	{ "cpu", 60000, 95, cpu, "CPU used of what there is", " %" },
	{ "throttled", 30000, 50, throttled, "periods in which the CPU limit was met", " %" },
	{ "tasks", 0, 90, tasks, "processes and threads of their limit", " %" },
	{ "disk", 0, 95, disk, "space used of a disk", " %" },
	{ "inodes", 0, 95, inodes, "files of what a disk can have", " %" },
	{ "fork_storm", 3000, 300, fork_storm, "processes and threads started", " per second" },
	{ "oom_kill", 0, 1, oom_kill, "processes killed because memory was used up", "" },
	{ "zombies", 10000, 100, zombies, "processes that have ended and are not waited for", "" },
	/* clang-format on */
};
const size_t guardrail_count = COUNT(guardrail_rules);

void guardrail_check(
	struct guardrail_state *state, const struct sample *now, const struct sample *before,
	void (*trip)(void *arg, const struct guardrail_rule *rule, const char *message), void *arg)
{
	for (size_t i = 0; i < guardrail_count; i++) {
		char message[160];
		__typeof__(&state->rules[i]) s = &state->rules[i];
		double value = guardrail_rules[i].measure(now, before);
		if (!(value >= guardrail_rules[i].limit)) { /* NAN is not so either */
			s->since_ms = 0;
			s->tripped = false;
			continue;
		}
		s->since_ms = s->since_ms ? s->since_ms : now->at_ms;
		if (s->tripped || now->at_ms - s->since_ms < guardrail_rules[i].hold_ms ||
		    (s->tripped_ms && now->at_ms - s->tripped_ms < GUARDRAIL_AGAIN_MS))
			continue;
		s->tripped = true;
		s->tripped_ms = now->at_ms;
		snprintf(message, sizeof message, "%s: %.0f%s (rule: %.0f%s)",
			 guardrail_rules[i].what, value, guardrail_rules[i].unit,
			 guardrail_rules[i].limit, guardrail_rules[i].unit);
		trip(arg, &guardrail_rules[i], message);
	}
}
