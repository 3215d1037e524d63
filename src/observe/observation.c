#include "observe/observation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/timestamp.h"
#include "base/turn.h"
#include "base/wait.h"
#include "config/config.h"
#include "journal/journal.h"
#include "net/server.h"
#include "observe/archive.h"
#include "observe/guardrail.h"
#include "observe/live.h"
#include "observe/observe_dir.h"
#include "observe/reports.h"
#include "observe/sample.h"
#include "proc/user.h"
#include "service/service.h"

enum {
	TOP = 15,
	FILE_MAX_BYTES =
		4 << 20, /* of each file; of one that is full, the one before is kept too */
	SESSIONS_MAX = 4,
	KEYS_MAX = 32,
	REPORT_AGAIN_MS = 300000, /* between two reports of a rule */
	TRIPS_MAX = 32,
	SUMMARY_MAX = 16384,
	LIVE_MAX = 4 << 20,
	CAPTURE_SECONDS = 900,
	ID_ROOM = 64,
};
#define PREFIX "obs"

const char *const observation_modes[] = { "off", "guardrail", "capture", NULL };
enum { MODE_OFF, MODE_GUARDRAIL, MODE_CAPTURE };

/* The files of an observation. */
enum { FILE_SAMPLES, FILE_PROCESSES, FILE_EVENTS, FILES };
static const char *const file_names[FILES] = { "samples.jsonl", "processes.jsonl", "events.jsonl" };
static const char *const old_names[FILES] = { "samples.1.jsonl", "processes.1.jsonl",
					      "events.1.jsonl" };

struct trip {
	char rule[24], message[160], at[40];
};

/* What is known of the one that runs, or was the last. */
struct observation {
	char id[ID_ROOM], dir[4200];
	int mode;
	struct timespec started, ends, last; /* tv_sec 0: never */
	double interval;
	bool processes, disk;
	/* For the summary. */
	int64_t samples, failures;
	double cpu_most;
	int64_t memory_most, processes_most;
	size_t trips;
	struct trip trip[TRIPS_MAX];
};

struct remembered {
	char key[OBSERVATION_KEY_MAX * 4 + 1];
	struct observation observation; /* as it was started */
	char report_id[ID_ROOM], session_id[ID_ROOM], reason[REPORTS_REASON_MAX * 4 + 1],
		created_at[40], path[4300];
	int64_t size;
};

static struct {
	struct turn turn; /* who starts, stops or exports */
	struct server *server;
	pthread_t thread;
	bool joinable;
	int stop_fd;
	size_t next_start, next_export;
	struct remembered *starts[KEYS_MAX], *exports[KEYS_MAX];

	pthread_mutex_t lock; /* of what follows */
	bool running, ended;
	struct observation now; /* id "": there was none */
} all = { .turn = TURN, .stop_fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

void observation_setup(struct server *server)
{
	all.server = server;
}

const char *observation_mode(void)
{
	pthread_mutex_lock(&all.lock);
	const char *mode = observation_modes[all.running ? all.now.mode : MODE_OFF];
	pthread_mutex_unlock(&all.lock);
	return mode;
}

static const char *time_text(struct arena *arena, const struct timespec *when)
{
	return when->tv_sec ? timestamp_text(arena, when) : NULL;
}

/* ---- writing while it runs: all of this is the thread's ---- */

struct observing {
	int fds[FILES];
	int64_t sizes[FILES];
	struct sampler sampler;
	struct guardrail_state rules;
	int64_t reported_ms[GUARDRAIL_MAX]; /* when a report of the rule was made; 0: never */
	struct journal_reader reader;
	struct arena arenas[2]; /* of this sample and the one before, in turn */
	struct sample samples[2];
	bool told; /* that nothing can be written */
};

static void close_files(struct observing *watch)
{
	for (int i = 0; i < FILES; i++) {
		own_close(&watch->fds[i]);
		watch->fds[i] = -1;
	}
}

static int open_session(const char *id, struct observe_dir **ret_dir, bool make)
{
	*ret_dir = observe_dir_enter(all.server, "sessions", NULL);
	if (!*ret_dir)
		return -1;
	int at = observe_dir_fd(*ret_dir);
	if (make && mkdirat(at, id, 0700) < 0)
		return -1;
	return openat(at, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Starts a file anew once it is full. */
static int file_of(struct observing *watch, int i, int dir, size_t more)
{
	if (watch->fds[i] >= 0 && watch->sizes[i] + (int64_t)more <= FILE_MAX_BYTES)
		return watch->fds[i];
	if (watch->fds[i] >= 0)
		(void)renameat(dir, file_names[i], dir, old_names[i]);
	own_close(&watch->fds[i]);
	watch->sizes[i] = 0;
	watch->fds[i] = observe_open(dir, file_names[i], O_WRONLY | O_CREAT | O_EXCL);
	return watch->fds[i];
}

static bool append(struct observing *watch, int i, int dir, const struct jw *jw)
{
	if (!jw->out.len || jw_failed(jw))
		return true;
	int fd = file_of(watch, i, dir, jw->out.len);
	ssize_t n = fd < 0 ? -1 : write(fd, jw->out.data, jw->out.len);
	watch->sizes[i] += n > 0 ? n : 0;
	return n == (ssize_t)jw->out.len;
}

static void end_line(struct jw *jw)
{
	(void)buf_str(&jw->out, "\n");
	jw->comma = false;
}

static void put_processes(struct jw *jw, const struct sample *sample)
{
	const struct sample_process *top = sample->top.items;
	if (!sample->top.count)
		return;
	jw_open(jw, '{');
	jw_key_str(jw, "ts", sample->ts);
	jw_key(jw, "top");
	jw_open(jw, '[');
	for (size_t i = 0; i < sample->top.count; i++)
		desc_encode(&sample_process_schema, &top[i], jw);
	jw_close(jw, ']');
	jw_close(jw, '}');
	end_line(jw);
}

static void put_sample(struct jw *jw, const struct sample *sample)
{
	jw_open(jw, '{');
	jw_key(jw, "sample");
	desc_encode(&sample_schema, sample, jw);
	jw_key(jw, "cgroup");
	desc_encode(&sample_cgroup_schema, &sample->cgroup, jw);
	jw_close(jw, '}');
	end_line(jw);
}

static void put_events(struct jw *jw, struct journal_reader *reader, struct arena *arena)
{
	struct journal_item *items;
	size_t count = journal_read(reader, arena, FILE_MAX_BYTES / 2, &items);
	for (size_t i = 0; i < count; i++) {
		jw_raw(jw, items[i].json.data, items[i].json.len);
		end_line(jw);
	}
}

/* All of a sample at once: what a crash cuts off is its last line. */
static void write_sample(struct observing *watch, const char *id, const struct sample *sample,
			 struct arena *arena)
{
	struct jw jws[FILES];
	struct observe_dir *sessions = NULL;
	for (int i = 0; i < FILES; i++)
		jw_init(&jws[i], FILE_MAX_BYTES);
	put_sample(&jws[FILE_SAMPLES], sample);
	put_processes(&jws[FILE_PROCESSES], sample);
	put_events(&jws[FILE_EVENTS], &watch->reader, arena);
	auto_close int dir = open_session(id, &sessions, false);
	bool written = dir >= 0;
	for (int i = 0; i < FILES && dir >= 0; i++)
		written &= append(watch, i, dir, &jws[i]);
	observe_dir_leave(sessions);
	for (int i = 0; i < FILES; i++)
		jw_done(&jws[i]);
	if (!written && !watch->told)
		log_warn("observation %s: a sample could not be written, as more may be", id);
	watch->told |= !written;
	pthread_mutex_lock(&all.lock);
	all.now.failures += !written;
	pthread_mutex_unlock(&all.lock);
}

static void note_sample(const struct sample *sample)
{
	pthread_mutex_lock(&all.lock);
	struct observation *now = &all.now;
	clock_gettime(CLOCK_REALTIME, &now->last);
	now->samples++;
	now->cpu_most = fmax(now->cpu_most, sample->cgroup.cpu_usage_pct);
	if (sample->cgroup.mem_current_bytes > now->memory_most)
		now->memory_most = sample->cgroup.mem_current_bytes;
	if (sample->processes > now->processes_most)
		now->processes_most = sample->processes;
	pthread_mutex_unlock(&all.lock);
}

/* ---- reports ---- */

struct filling {
	struct arena *arena;
	const char *session_id; /* NULL: none */
	struct observation of;  /* what is known of it; id "": nothing */
	const struct live *live;
	int dir; /* of the session; -1 */
};

static void put_line(struct buf *to, const char *name, const char *value)
{
	buf_printf(to, "%-22s %s\n", name, value ? value : "-");
}

static void add_summary(const struct filling *filling, struct archive *archive)
{
	auto_buf struct buf text = BUF(SUMMARY_MAX);
	const struct observation *of = &filling->of;
	put_line(&text, "observation", filling->session_id);
	if (*of->id) {
		put_line(&text, "mode", observation_modes[of->mode]);
		put_line(&text, "started", time_text(filling->arena, &of->started));
		put_line(&text, "last sample", time_text(filling->arena, &of->last));
		buf_printf(&text, "%-22s %g s\n", "interval", of->interval);
		buf_printf(&text, "%-22s %lld, %lld of them not written\n", "samples",
			   (long long)of->samples, (long long)of->failures);
		buf_printf(&text, "%-22s %.1f %% of one processor\n", "most CPU", of->cpu_most);
		buf_printf(&text, "%-22s %.1f MiB\n", "most memory",
			   (double)of->memory_most / (1 << 20));
		buf_printf(&text, "%-22s %lld\n", "most processes", (long long)of->processes_most);
		for (size_t i = 0; i < of->trips; i++)
			buf_printf(&text, "%-22s %s %s: %s\n", "rule met", of->trip[i].at,
				   of->trip[i].rule, of->trip[i].message);
	} else if (filling->session_id) {
		buf_str(&text, "recorded by a server that has ended: see samples.jsonl\n");
	}
	buf_str(&text,
		"\nprocesses now that use most\n     pid user             rss MiB   cpu % name\n");
	const struct sample_process *top = filling->live->top_processes.items;
	for (size_t i = 0; i < filling->live->top_processes.count; i++)
		buf_printf(&text, "%8lld %-16s %7.1f %7.1f %s\n", (long long)top[i].pid,
			   top[i].user, top[i].rss_mib, isnan(top[i].cpu_pct) ? 0 : top[i].cpu_pct,
			   top[i].comm);
	archive_add(archive, "summary.txt", text.data, text.len);
}

static void add_live(const struct filling *filling, struct archive *archive)
{
	struct jw jw;
	jw_init(&jw, LIVE_MAX);
	desc_encode(&live_schema, filling->live, &jw);
	end_line(&jw);
	archive_add(archive, "live.json", jw.out.data, jw.out.len);
	jw_done(&jw);
}

static void add_services(const struct filling *filling, struct archive *archive)
{
	struct service_info *list;
	struct jw jw;
	size_t count = service_list(filling->arena, &list);
	jw_init(&jw, LIVE_MAX);
	jw_open(&jw, '[');
	for (size_t i = 0; i < count; i++) {
		jw_open(&jw, '{');
		jw_key_str(&jw, "name", list[i].name);
		jw_key_str(&jw, "state", service_state_names[list[i].state]);
		jw_key_int(&jw, "starts", (int64_t)list[i].starts);
		jw_key_int(&jw, "failures", (int64_t)list[i].failures);
		jw_close(&jw, '}');
	}
	jw_close(&jw, ']');
	end_line(&jw);
	archive_add(archive, "services.json", jw.out.data, jw.out.len);
	jw_done(&jw);
}

/* What the journal has, where no observation has kept it. */
static void add_events(const struct filling *filling, struct archive *archive)
{
	struct journal_reader reader = { .after = -1, .kinds = JOURNAL_ALL, .fd = -1 };
	struct jw jw;
	jw_init(&jw, LIVE_MAX);
	put_events(&jw, &reader, filling->arena);
	archive_add(archive, file_names[FILE_EVENTS], jw.out.data ? jw.out.data : "", jw.out.len);
	jw_done(&jw);
}

static void add_file(const struct filling *filling, struct archive *archive, const char *name)
{
	auto_close int fd = observe_open(filling->dir, name, O_RDONLY);
	if (fd >= 0)
		archive_add_file(archive, name, fd, FILE_MAX_BYTES);
}

static void fill(void *arg, struct archive *archive)
{
	const struct filling *filling = arg;
	add_summary(filling, archive);
	add_live(filling, archive);
	add_services(filling, archive);
	for (int i = 0; i < FILES && filling->dir >= 0; i++) {
		add_file(filling, archive, old_names[i]);
		add_file(filling, archive, file_names[i]);
	}
	if (filling->dir >= 0)
		add_file(filling, archive, "session.json");
	else
		add_events(filling, archive);
}

/* By who has the turn, or is the thread. */
static int make_report(const char *session_id, const char *reason, const struct wait *wait,
		       struct arena *arena, struct report *ret, struct err *err)
{
	struct live live;
	struct filling filling = { .arena = arena, .live = &live, .dir = -1 };
	pthread_mutex_lock(&all.lock);
	if (*all.now.id && (!session_id || !strcmp(session_id, all.now.id)))
		filling.of = all.now;
	pthread_mutex_unlock(&all.lock);
	filling.session_id = session_id       ? session_id
			     : *filling.of.id ? arena_strdup(arena, filling.of.id)
					      : NULL;
	if (live_take(all.server, TOP, wait, arena, &live, err) < 0)
		return -1;
	if (filling.session_id) {
		struct observe_dir *sessions = NULL;
		filling.dir = open_session(filling.session_id, &sessions, false);
		observe_dir_leave(sessions);
	}
	if (filling.session_id && filling.dir < 0 && !*filling.of.id)
		return err_set(err, ERR_NOT_FOUND, "there is no observation '%.80s'", session_id);
	int result = reports_make(all.server, arena, filling.session_id, reason, fill, &filling,
				  ret, err);
	own_close(&filling.dir);
	return result;
}

/* ---- the rules ---- */

struct tripping {
	struct observing *watch;
	const char *id;
	const struct sample *sample;
};

static void note_trip(const struct guardrail_rule *rule, const char *message, const char *at)
{
	pthread_mutex_lock(&all.lock);
	if (all.now.trips < TRIPS_MAX) {
		struct trip *trip = &all.now.trip[all.now.trips++];
		snprintf(trip->rule, sizeof trip->rule, "%s", rule->name);
		snprintf(trip->message, sizeof trip->message, "%s", message);
		snprintf(trip->at, sizeof trip->at, "%s", at);
	}
	pthread_mutex_unlock(&all.lock);
}

static void tripped(void *arg, const struct guardrail_rule *rule, const char *message)
{
	const struct tripping *tripping = arg;
	struct arena arena = { 0 };
	struct report report = { 0 };
	struct err err = { 0 };
	size_t i = (size_t)(rule - guardrail_rules);
	int64_t *reported_ms = &tripping->watch->reported_ms[i], now_ms = clock_ms();
	note_trip(rule, message, tripping->sample->ts);
	const char *reason = arena_printf(&arena, "guardrail:%s", rule->name);
	if (!*reported_ms || now_ms - *reported_ms >= REPORT_AGAIN_MS) {
		const struct wait wait = { INT64_MAX, -1, all.stop_fd };
		*reported_ms = now_ms;
		if (make_report(tripping->id, reason, &wait, &arena, &report, &err) < 0)
			log_warn("observation %s: no report of the rule '%s': %s", tripping->id,
				 rule->name, err.msg);
	}
	const struct journal_guardrail event = { rule->name, message, tripping->id,
						 report.report_id };
	journal_add(JOURNAL_GUARDRAIL_TRIPPED, &event);
	const struct log_fact facts[] = { { "rule", rule->name },
					  { "measured", message },
					  { "session", tripping->id } };
	log_event(LOG_WARN, "guardrail", facts, COUNT(facts));
	arena_done(&arena);
}

/* ---- the thread ---- */

static void look_once(struct observing *watch, const struct observation *of, int64_t turn)
{
	int at = (int)(turn % 2);
	struct sample *now = &watch->samples[at];
	const struct sample *before = turn ? &watch->samples[!at] : NULL;
	arena_done(&watch->arenas[at]);
	sampler_take(&watch->sampler, &watch->arenas[at], now);
	write_sample(watch, of->id, now, &watch->arenas[at]);
	note_sample(now);
	struct tripping tripping = { watch, of->id, now };
	if (of->mode == MODE_GUARDRAIL)
		guardrail_check(&watch->rules, now, before, tripped, &tripping);
}

static void *observe(void *arg)
{
	struct observation *of = arg;
	struct observing *watch = xcalloc(1, sizeof *watch);
	int64_t step_ms = (int64_t)(of->interval * 1000), next_ms = clock_ms();
	int64_t ends_ms = of->ends.tv_sec ? next_ms + (of->ends.tv_sec - of->started.tv_sec) * 1000
					  : INT64_MAX;
	for (int i = 0; i < FILES; i++)
		watch->fds[i] = -1;
	watch->sampler = (struct sampler){ .disk = of->disk,
					   .top = of->processes ? TOP : 0,
					   .workspace = all.server->config->workspace };
	watch->reader = (struct journal_reader){ .after = -1,
						 .kinds = JOURNAL_ALL,
						 .since_ms = (int64_t)of->started.tv_sec * 1000 +
							     of->started.tv_nsec / 1000000,
						 .fd = -1 };
	for (int64_t turn = 0;; turn++) {
		look_once(watch, of, turn);
		next_ms += step_ms;
		if (next_ms < clock_ms()) /* it was frozen, or takes longer than the interval */
			next_ms = clock_ms() + step_ms;
		if (next_ms > ends_ms || wait_until(all.stop_fd, POLLIN, next_ms))
			break;
	}
	(void)wait_until(all.stop_fd, POLLIN, ends_ms);
	close_files(watch);
	sampler_done(&watch->sampler);
	arena_done(&watch->arenas[0]);
	arena_done(&watch->arenas[1]);
	free(watch);
	free(of);
	pthread_mutex_lock(&all.lock);
	all.running = false;
	pthread_mutex_unlock(&all.lock);
	return NULL;
}

/* With the turn: the thread of one that has ended, or was told to. */
static void join(void)
{
	if (all.joinable)
		pthread_join(all.thread, NULL);
	all.joinable = false;
	pthread_mutex_lock(&all.lock); /* the end of the server signals it under this */
	own_close(&all.stop_fd);
	all.stop_fd = -1;
	pthread_mutex_unlock(&all.lock);
}

/* ---- starting ---- */

static struct remembered *recall(struct remembered *const *list, const char *key)
{
	for (size_t i = 0; key && *key && i < KEYS_MAX; i++)
		if (list[i] && !strcmp(list[i]->key, key))
			return list[i];
	return NULL;
}

static struct remembered *remember(struct remembered **list, size_t *next, const char *key)
{
	if (!key || !*key)
		return NULL;
	struct remembered **at = &list[(*next)++ % KEYS_MAX];
	free(*at);
	*at = xcalloc(1, sizeof **at);
	snprintf((*at)->key, sizeof(*at)->key, "%s", key);
	return *at;
}

static void describe_start(const struct observation *of, struct arena *arena,
			   struct observation_started *ret)
{
	*ret = (struct observation_started){
		.session_id = arena_strdup(arena, of->id),
		.mode = observation_modes[of->mode],
		.started_at = timestamp_text(arena, &of->started),
		.ends_at = time_text(arena, &of->ends),
		.runtime_dir = arena_strdup(arena, of->dir),
		.interval_seconds = of->interval,
	};
}

/* An older one's directory, with what was written there. Other files in it keep it. */
static void remove_session(int sessions, const char *id)
{
	auto_close int dir = openat(sessions, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return;
	for (int i = 0; i < FILES; i++) {
		unlinkat(dir, file_names[i], 0);
		unlinkat(dir, old_names[i], 0);
	}
	unlinkat(dir, "session.json", 0);
	unlinkat(sessions, id, AT_REMOVEDIR);
}

/* Keeps the latest, whose names sort by when they were begun. */
static void trim_sessions(int sessions)
{
	char newest[SESSIONS_MAX - 1][ID_ROOM] = { 0 };
	DIR *dir = dir_open_at(sessions, ".", 0);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char id[ID_ROOM];
		if (!observe_is_id(PREFIX, entry->d_name))
			continue;
		snprintf(id, sizeof id, "%.60s", entry->d_name);
		for (size_t i = 0; i < COUNT(newest); i++)
			if (strcmp(id, newest[i]) > 0) {
				char other[ID_ROOM];
				memcpy(other, newest[i], sizeof other);
				memcpy(newest[i], id, sizeof other);
				memcpy(id, other, sizeof other);
			}
		if (*id)
			remove_session(sessions, id);
	}
	if (dir)
		closedir(dir);
}

static int make_session(struct observation *of, struct err *err)
{
	struct jw jw;
	struct arena arena = { 0 };
	struct observe_dir *sessions = observe_dir_enter(all.server, "sessions", err);
	if (!sessions)
		return -1;
	trim_sessions(observe_dir_fd(sessions));
	snprintf(of->dir, sizeof of->dir, "%s/%s", observe_dir_path(sessions), of->id);
	observe_dir_leave(sessions);
	jw_init(&jw, SUMMARY_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "session_id", of->id);
	jw_key_str(&jw, "mode", observation_modes[of->mode]);
	jw_key_str(&jw, "started_at", timestamp_text(&arena, &of->started));
	jw_key_str(&jw, "ends_at", time_text(&arena, &of->ends));
	jw_key(&jw, "interval_seconds");
	jw_num(&jw, of->interval);
	jw_key_str(&jw, "aio_version", AIO_VERSION);
	jw_close(&jw, '}');
	end_line(&jw);
	auto_close int dir = open_session(of->id, &sessions, true);
	auto_close int fd =
		dir < 0 ? -1 : observe_open(dir, "session.json", O_WRONLY | O_CREAT | O_EXCL);
	int result = fd >= 0 && write(fd, jw.out.data, jw.out.len) == (ssize_t)jw.out.len
			     ? 0
			     : err_set(err, errno, "'%.400s'", of->dir);
	observe_dir_leave(sessions);
	jw_done(&jw);
	arena_done(&arena);
	return result;
}

static void plan(const struct observation_request *request, struct observation *ret)
{
	bool guard = !strcmp(request->mode, observation_modes[MODE_GUARDRAIL]);
	int64_t seconds = request->duration_seconds;
	*ret = (struct observation){
		.mode = guard ? MODE_GUARDRAIL : MODE_CAPTURE,
		.interval = isnan(request->interval_seconds) ? (guard ? 5 : 1)
							     : request->interval_seconds,
		.processes = request->include_processes != NO,
		.disk = request->include_disk || guard,
	};
	if (seconds == INT_ABSENT && !guard)
		seconds = CAPTURE_SECONDS;
	observe_id(PREFIX, ret->id, sizeof ret->id);
	clock_gettime(CLOCK_REALTIME, &ret->started);
	if (seconds == INT_ABSENT)
		return;
	ret->ends = ret->started;
	ret->ends.tv_sec += seconds;
}

static int begin(const struct observation *planned, struct err *err)
{
	struct observation *mine = xmalloc(sizeof *mine);
	*mine = *planned;
	pthread_mutex_lock(&all.lock);
	all.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool may = !all.ended && all.stop_fd >= 0;
	all.now = *planned;
	all.running = may;
	pthread_mutex_unlock(&all.lock);
	all.joinable = may && thread_start_joinable(&all.thread, observe, mine) == 0;
	if (all.joinable)
		return 0;
	free(mine);
	pthread_mutex_lock(&all.lock);
	all.running = false;
	pthread_mutex_unlock(&all.lock);
	return err_set(err, ERR_UNAVAILABLE, "no thread or descriptor to observe with");
}

static int start_new(const struct observation_request *request, struct arena *arena,
		     struct observation_started *ret, struct err *err)
{
	pthread_mutex_lock(&all.lock);
	bool running = all.running;
	const char *id = arena_strdup(arena, all.now.id);
	pthread_mutex_unlock(&all.lock);
	if (running)
		return err_set(err, ERR_CONFLICT, "the observation '%s' runs: stop it first", id);
	join();
	struct observation *planned = arena_alloc(arena, sizeof *planned);
	plan(request, planned);
	if (make_session(planned, err) < 0 || begin(planned, err) < 0)
		return -1;
	struct remembered *kept = remember(all.starts, &all.next_start, request->idempotency_key);
	if (kept)
		kept->observation = *planned;
	describe_start(planned, arena, ret);
	return 0;
}

int observation_start(const struct observation_request *request, const struct wait *wait,
		      struct arena *arena, struct observation_started *ret, struct err *err)
{
	if (turn_take(&all.turn, wait, err) < 0)
		return -1;
	const struct remembered *known = recall(all.starts, request->idempotency_key);
	int result = 0;
	if (known)
		describe_start(&known->observation, arena, ret);
	else
		result = start_new(request, arena, ret, err);
	turn_give(&all.turn);
	return result;
}

/* ---- stopping, looking, exporting ---- */

int observation_stop(const char *session_id, const struct wait *wait, struct arena *arena,
		     struct observation_stopped *ret, struct err *err)
{
	if (turn_take(&all.turn, wait, err) < 0)
		return -1;
	pthread_mutex_lock(&all.lock);
	bool running = all.running;
	const char *id = arena_strdup(arena, all.now.id);
	pthread_mutex_unlock(&all.lock);
	bool known = *id && (!session_id || !*session_id || !strcmp(session_id, id));
	if (known && running)
		(void)eventfd_write(all.stop_fd, 1);
	if (known)
		join();
	pthread_mutex_lock(&all.lock);
	*ret = (struct observation_stopped){ id, running, all.now.samples > all.now.failures };
	pthread_mutex_unlock(&all.lock);
	turn_give(&all.turn);
	return known ? 0
	       : session_id && *session_id
		       ? err_set(err, ERR_NOT_FOUND, "the observation '%.80s' does not run",
				 session_id)
		       : err_set(err, ERR_NOT_FOUND, "no observation was started");
}

void observation_status(struct arena *arena, struct observation_status *ret)
{
	int64_t count = reports_count(all.server);
	pthread_mutex_lock(&all.lock);
	const struct observation *now = &all.now;
	bool any = *now->id;
	*ret = (struct observation_status){
		.mode = observation_modes[all.running ? now->mode : MODE_OFF],
		.running = all.running,
		.session_id = any ? arena_strdup(arena, now->id) : NULL,
		.started_at = time_text(arena, &now->started),
		.ends_at = time_text(arena, &now->ends),
		.last_sample_at = time_text(arena, &now->last),
		.runtime_dir = any ? arena_strdup(arena, now->dir) : NULL,
		.interval_seconds = any ? now->interval : NAN,
		.report_count = count,
	};
	pthread_mutex_unlock(&all.lock);
}

static void keep_report(struct remembered *kept, const struct report *report)
{
	snprintf(kept->report_id, sizeof kept->report_id, "%s", report->report_id);
	snprintf(kept->session_id, sizeof kept->session_id, "%s",
		 report->session_id ? report->session_id : "");
	snprintf(kept->reason, sizeof kept->reason, "%s", report->reason);
	snprintf(kept->created_at, sizeof kept->created_at, "%s", report->created_at);
	snprintf(kept->path, sizeof kept->path, "%s", report->path);
	kept->size = report->size_bytes;
}

static struct report kept_report(const struct remembered *kept, struct arena *arena)
{
	return (struct report){
		arena_strdup(arena, kept->report_id),
		*kept->session_id ? arena_strdup(arena, kept->session_id) : NULL,
		arena_strdup(arena, kept->reason),
		arena_strdup(arena, kept->created_at),
		arena_strdup(arena, kept->path),
		kept->size,
	};
}

int observation_export(const char *session_id, const char *reason, const char *key,
		       const struct wait *wait, struct arena *arena, struct report *ret,
		       struct err *err)
{
	if (session_id && !*session_id)
		session_id = NULL;
	if (session_id && !observe_is_id(PREFIX, session_id))
		return err_set(err, ERR_NOT_FOUND, "there is no observation '%.80s'", session_id);
	if (turn_take(&all.turn, wait, err) < 0)
		return -1;
	int result = 0;
	const struct remembered *known = recall(all.exports, key);
	if (known)
		*ret = kept_report(known, arena);
	else
		result = make_report(session_id, reason, wait, arena, ret, err);
	struct remembered *kept =
		known || result < 0 ? NULL : remember(all.exports, &all.next_export, key);
	if (kept)
		keep_report(kept, ret);
	turn_give(&all.turn);
	return result;
}

/* ---- the end ---- */

void observation_ask_end(void)
{
	pthread_mutex_lock(&all.lock);
	all.ended = true;
	if (all.running && all.stop_fd >= 0)
		(void)eventfd_write(all.stop_fd, 1);
	pthread_mutex_unlock(&all.lock);
}

void observation_end(void)
{
	join();
	for (size_t i = 0; i < KEYS_MAX; i++) {
		free(TAKE(all.starts[i]));
		free(TAKE(all.exports[i]));
	}
}
