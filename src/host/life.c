/* What happens to a box: made, paused, resumed, stopped, deleted, found again. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/wait.h"
#include "config/config.h"
#include "host/deadline.h"
#include "host/denials.h"
#include "host/health.h"
#include "host/history.h"
#include "host/host.h"
#include "host/network.h"
#include "host/run.h"
#include "host/shutdown.h"
#include "host/store.h"
#include "host/uids.h"
#include "net/auth.h"

enum { MAKE_MS = 30000, DYING_MS = 5000 };

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

void life_cgroup(const struct host *host, const char *id, char *to, size_t room)
{
	snprintf(to, room, "%08x-%s", host->seed, id);
}

/* That of a box that runs; NULL: it is paused or stopped. */
static const char *running_cgroup(const struct host *host, const struct box *box, char *to,
				  size_t room)
{
	life_cgroup(host, box->id, to, room);
	return box->state == BOX_RUNNING ? to : NULL;
}

/* ---- what is stored ---- */

static json_t *proc_json(const struct box_proc *proc)
{
	return json_pack("{sisIsIsIss}", "pid", (int)proc->pid, "start_time",
			 (json_int_t)proc->start_time, "pid_ns", (json_int_t)proc->pid_ns, "net_ns",
			 (json_int_t)proc->net_ns, "boot_id", proc->boot_id);
}

static void proc_read(const json_t *from, struct box_proc *to)
{
	const char *boot_id = text(from, "boot_id");
	*to = (struct box_proc){ (pid_t)json_integer_value(json_object_get(from, "pid")),
				 (uint64_t)json_integer_value(json_object_get(from, "start_time")),
				 (uint64_t)json_integer_value(json_object_get(from, "pid_ns")),
				 (uint64_t)json_integer_value(json_object_get(from, "net_ns")),
				 { 0 } };
	snprintf(to->boot_id, sizeof to->boot_id, "%s", boot_id ? boot_id : "");
}

/* Only the holder of the box's turn calls this, so nothing changes meanwhile. `state` is the one it is
 * about to have. */
static int save(struct host *host, const struct box *box, enum box_state state, struct err *err)
{
	const struct deadline_now now = deadline_now();
	json_t *doc = json_pack("{sssssssIsIsosIsbsOso}", "state", box_state_names[state], "token",
				box->token, "secret", box->secret, "uid_base",
				(json_int_t)box->uid_base, "created_ms",
				(json_int_t)box->created_ms, "deadline",
				deadline_note(box->deadline, &now), "idle_ms",
				(json_int_t)box->idle_ms, "auto_resume", box->auto_resume, "spec",
				box->spec, "proc", proc_json(&box->proc));
	auto_free char *dump = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	return store_put(host->store, box->id, dump, err);
}

/* For its history and for the host's log; text: what the kind says more, or NULL. */
static void record(struct host *host, struct box *box, enum history_kind kind, const char *text)
{
	const struct log_fact facts[] = { { "id", box->id },
					  { "event", history_names[kind] },
					  { text ? history_schema(kind)->fields->name : NULL,
					    text } };
	history_add(host, box, kind, &(struct history_text){ text });
	log_event(LOG_INFO, "box", facts, text ? 3 : 2);
}

/* ---- who may call ---- */

static int make_auth(struct host *host, struct box *box, struct err *err)
{
	const struct host_config *config = host->config;
	bool first = !strcmp(box->id, "default");
	struct auth_config who = {
		.jwt_public_key = config->jwt_public_key,
		.jwt_audience = first ? "?default"
				      : box->id, /* the contract's tokens name nobody */
		.api_key = first ? config->api_key : box->token,
		.auth_token = first ? config->auth_token : NULL,
		.ticket_ttl = (int)(config->ticket_ttl_ms / 1000),
	};
	const char *mode = text(box->spec, "auth");
	if (!first && mode && !strcmp(mode, "none"))
		who = (struct auth_config){ .ticket_ttl = who.ticket_ttl };
	box->auth = auth_new(&who, err);
	return box->auth ? 0 : -1;
}

static int remove_files(struct host *host, const char *id, struct err *err)
{
	auto_free char *dir = host_path(host, "boxes", id, "");
	if (box_remove(dir, err) < 0)
		return -1;
	static const char *const ends[] = { ".log", ".log.1" };
	for (size_t i = 0; i < COUNT(ends); i++) {
		auto_free char *path = host_path(host, "log", id, ends[i]);
		unlink(path);
	}
	return 0;
}

/* ---- creating ---- */

static struct uids uids_of(const struct host *host)
{
	return (struct uids){ UIDS_CLAIMS, host->state, host->seed };
}

static uint32_t *bases_of(struct box *const *list, size_t count)
{
	uint32_t *bases = xcalloc(count + 1, sizeof *bases);
	for (size_t i = 0; i < count; i++)
		bases[i] = list[i]->uid_base;
	return bases;
}

/* Adds the box to the table with a range of uids that no other on the machine has. */
static int add_box(struct host *host, struct box *box, struct err *err)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	size_t count;
	pthread_mutex_lock(&one_at_a_time);
	struct box **list = boxes_list(&host->boxes, &count);
	auto_free uint32_t *taken = bases_of(list, count);
	for (size_t i = 0; i < count; i++)
		boxes_put(&host->boxes, list[i]);
	const struct uids uids = uids_of(host);
	bool room = count < (size_t)host->config->max_boxes;
	uint32_t base = room ? uids_take(&uids, 0, taken, count, err) : 0;
	int result = -1;
	box->uid_base = base;
	if (!room)
		err_set(err, ERR_LIMIT, "there are %zu sandboxes already: see --max-boxes", count);
	if (base)
		result = boxes_add(&host->boxes, box, err);
	else
		boxes_free(box);
	if (base && result < 0)
		uids_release(&uids, base);
	pthread_mutex_unlock(&one_at_a_time);
	free(list);
	return result;
}

/* Takes it out of the table. Its ids are given back before: as long as it is there, no other box of this host
 * gets them. */
static void drop_box(struct host *host, struct box *box)
{
	const struct uids uids = uids_of(host);
	uids_release(&uids, box->uid_base);
	boxes_drop(&host->boxes, box);
}

static void set_deadline(struct box *box)
{
	box->deadline = deadline_after((int64_t)ceil(number(box->spec, "timeout") * 1000));
}

static void set_timers(struct box *box)
{
	double idle = number(box->spec, "idle_timeout");
	set_deadline(box);
	box->idle_ms = idle > 0 ? llround(idle * 1000) : 0;
	const json_t *comes_back = json_object_get(box->spec, "auto_resume");
	box->auto_resume = json_is_boolean(comes_back) ? json_is_true(comes_back)
						       : idle > 0 || !strcmp(box->id, "default");
}

/* Whether to try again: who made the box was killed over it, for lack of memory, say. */
static bool is_unmade(int result, int64_t until_ms, struct err *err)
{
	if (result == 0 || err->code != ERR_GONE)
		return false;
	if (clock_ms() < until_ms)
		return true;
	err_set(err, ERR_UNAVAILABLE,
		"the processes that make sandboxes are killed again and again");
	return false;
}

static int copy_files(struct host *host, const struct box *from, const struct box *to,
		      struct err *err)
{
	char cgroup[64];
	auto_free char *source = host_path(host, "boxes", from->id, ""),
		       *dir = host_path(host, "boxes", to->id, "");
	return box_copy(source, running_cgroup(host, from, cgroup, sizeof cgroup), dir,
			to->uid_base, err);
}

static int furnish_once(struct host *host, struct box *box, const struct box *from, struct err *err)
{
	auto_free char *root = NULL, *dir = host_path(host, "boxes", box->id, "");
	if (templates_find(host, text(box->spec, "template"), &root, err) < 0)
		return -1;
	if (mkdir(dir, 0700) < 0)
		return err_set(err, errno, "mkdir '%s'", dir);
	if (from && copy_files(host, from, box, err) < 0)
		return -1;
	return run_start(host, box, root, err);
}

static int furnish(struct host *host, struct box *box, const struct box *from, struct err *err)
{
	int64_t until = clock_ms() + MAKE_MS;
	int result = furnish_once(host, box, from, err);
	while (is_unmade(result, until, err)) { /* of its files, none can be relied upon */
		result = remove_files(host, box->id, err);
		if (result == 0)
			result = furnish_once(host, box, from, err);
	}
	return result;
}

/* A box with all that others look at, so that it can be shown. */
static struct box *new_box(struct host *host, json_t *spec, struct err *err)
{
	char id[BOX_ID_MAX + 1] = "b";
	const char *name = text(spec, "name"), *mode = text(spec, "auth");
	if (name && !address_is_id(name)) {
		err_set(err, ERR_INVALID,
			"a name is a lower-case letter, then lower-case letters, digits and single '-', at most %d",
			BOX_ID_MAX);
		return NULL;
	}
	if (name && !strcmp(name, ADDRESS_HOST)) {
		err_set(err, ERR_INVALID,
			"the name '" ADDRESS_HOST "' is the host's own: see --plain-origin");
		return NULL;
	}
	if (!name)
		host_secret(id + 1, 12);
	struct box *box = boxes_new(name ? name : id);
	box->spec = json_incref(spec);
	host_secret(box->token, 33);
	host_secret(box->secret, 33);
	if (mode && !strcmp(mode, "none"))
		box->token[0] = 0;
	box->created_ms = host_now_ms();
	box->used_ms = clock_ms();
	set_timers(box);
	if (make_auth(host, box, err) == 0)
		return add_box(host, box, err) < 0 ? NULL : box;
	boxes_free(box);
	return NULL;
}

/* from: NULL, or a box whose turn the caller has. */
static struct box *create(struct host *host, json_t *spec, const struct box *from, struct err *err)
{
	struct box *box = new_box(host, spec, err);
	struct err ignored;
	json_decref(spec);
	if (!box)
		return NULL;
	int result = furnish(host, box, from, err);
	pthread_mutex_lock(&host->boxes.lock);
	set_deadline(box); /* again: its time does not run while it is made */
	pthread_mutex_unlock(&host->boxes.lock);
	if (result == 0)
		result = save(host, box, BOX_RUNNING, err);
	if (result < 0) {
		boxes_set_state(&host->boxes, box, BOX_DELETED);
		(void)run_stop(host, box, &ignored);
		(void)remove_files(host, box->id, &ignored);
		drop_box(host, box);
		boxes_end(&host->boxes, box);
		return NULL;
	}
	const char *template = text(box->spec, "template");
	record(host, box, HISTORY_CREATED, template ? template : "machine");
	record(host, box, HISTORY_STARTED, NULL);
	boxes_set_state(&host->boxes, box, BOX_RUNNING);
	keeper_notice(host);
	struct box *mine = boxes_get(&host->boxes, box->id);
	boxes_end(&host->boxes, box);
	return mine;
}

struct box *life_create(struct host *host, json_t *spec, struct err *err)
{
	return create(host, spec, NULL, err);
}

/* ---- changes ---- */

static int begin(struct host *host, const char *id, struct box **ret, struct err *err)
{
	*ret = boxes_begin(&host->boxes, id, err);
	return *ret ? 0 : -1;
}

static int end(struct host *host, struct box *box, int result)
{
	boxes_end(&host->boxes, box);
	keeper_notice(host);
	return result;
}

static int freeze(struct host *host, const struct box *box, bool frozen, struct err *err)
{
	char cgroup[64];
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	return box_freeze(cgroup, frozen, err);
}

/* By who has its turn, which ends. */
static int delete_box(struct host *host, struct box *box, const char *why, struct err *err)
{
	const char *id = box->id;
	enum box_state before = box->state;
	record(host, box, HISTORY_DELETED, why);
	boxes_set_state(&host->boxes, box, BOX_DELETED);
	if (before == BOX_PAUSED)
		(void)freeze(host, box, false, NULL);
	if (before == BOX_RUNNING || before == BOX_PAUSED)
		shutdown_hooks(host, &box, 1); /* while it still has its network */
	int result = run_stop(host, box, err);
	/* The row goes first: a crash here leaves files without a row, which the next start removes. */
	if (result == 0)
		result = store_delete(host->store, id, err);
	if (result < 0) {
		boxes_set_state(&host->boxes, box, BOX_STOPPED);
		return end(host, box, result);
	}
	if (remove_files(host, id, err) < 0)
		log_warn("box %s: its files are not removed: %s", id, err->msg);
	drop_box(host, box);
	return end(host, box, 0);
}

int life_delete(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	return begin(host, id, &box, err) < 0 ? -1 : delete_box(host, box, "asked", err);
}

int life_expire(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	bool over = box->deadline && deadline_now().boot_ms >= box->deadline;
	return over ? delete_box(host, box, "timeout", err) : end(host, box, 0);
}

/* Still: a request may have come, or another time been set, since the keeper looked. */
static bool is_idle(const struct box *box)
{
	return !box->active && box->idle_ms && clock_ms() - box->used_ms >= box->idle_ms;
}

int life_pause(struct host *host, const char *id, const char *why, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	if (box->state == BOX_PAUSED)
		return end(host, box, 0);
	if (box->state != BOX_RUNNING)
		return end(host, box,
			   err_set(err, ERR_CONFLICT, "sandbox '%s' is %s", id,
				   box_state_names[box->state]));
	boxes_set_state(&host->boxes, box, BOX_PAUSED); /* no new request may reach it half-way */
	if (!strcmp(why, "idle") && !is_idle(box)) {
		boxes_set_state(&host->boxes, box, BOX_RUNNING);
		return end(host, box, 0);
	}
	int result = freeze(host, box, true, err);
	if (result == 0)
		result = save(host, box, BOX_PAUSED, err);
	if (result < 0) {
		(void)freeze(host, box, false, NULL);
		boxes_set_state(&host->boxes, box, BOX_RUNNING);
	} else {
		record(host, box, HISTORY_PAUSED, why);
	}
	return end(host, box, result);
}

static int settle_stopped(struct host *host, struct box *box, struct err *err)
{
	if (box->state == BOX_PAUSED)
		(void)freeze(host, box, false, NULL);
	boxes_set_state(&host->boxes, box, BOX_STOPPED);
	if (run_stop(host, box, err) < 0)
		return -1;
	return save(host, box, BOX_STOPPED, err);
}

/* Its processes have ended by themselves. If its init was killed too, it could not write how. */
static int settle_dead(struct host *host, struct box *box, struct err *err)
{
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	int status = box_exit_status(dir);
	const struct log_fact facts[] = { { "id", box->id }, { "event", "exited" } };
	log_event(LOG_INFO, "box", facts, COUNT(facts));
	const struct history_exit exit = {
		.exit_code = status >= 0 && !WIFSIGNALED(status) ? WEXITSTATUS(status) : INT_ABSENT,
		.signal = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : INT_ABSENT,
	};
	history_add(host, box, HISTORY_EXITED, &exit);
	return settle_stopped(host, box, err);
}

static int start_again(struct host *host, struct box *box, struct err *err)
{
	auto_free char *root = NULL;
	if (templates_find(host, text(box->spec, "template"), &root, err) < 0)
		return -1;
	int64_t until = clock_ms() + MAKE_MS;
	int result;
	do {
		result = run_start(host, box, root, err);
	} while (is_unmade(result, until, err));
	return result;
}

/* A box that seems to be alive but is not, and nobody has noticed yet. Its first process ends a moment after
 * its server. */
static bool has_died(const struct host *host, const struct box *box)
{
	if (box->state != BOX_RUNNING && box->state != BOX_PAUSED)
		return false;
	return wait_until(box->pidfd, POLLIN, 0) ||
	       (!health_check(host->state_fd, box->id) &&
		wait_until(box->pidfd, POLLIN, clock_ms() + DYING_MS));
}

int life_resume(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	int result = 0;
	if (begin(host, id, &box, err) < 0)
		return -1;
	if (host->ending && box->state != BOX_RUNNING) /* whoever asked, it would be left behind */
		result = err_set(err, ERR_UNAVAILABLE, "the host is going down");
	if (result == 0 && box->state == BOX_PAUSED)
		result = freeze(host, box, false, err);
	if (result == 0 && has_died(host, box))
		result = settle_dead(host, box, err);
	enum box_state before = box->state;
	if (result < 0 || before == BOX_RUNNING)
		return end(host, box, result);
	if (before == BOX_STOPPED)
		result = start_again(host, box, err);
	if (result == 0) {
		struct err ignored;
		box->used_ms = clock_ms();
		result = save(host, box, BOX_RUNNING, err);
		if (result == 0)
			record(host, box, before == BOX_PAUSED ? HISTORY_RESUMED : HISTORY_STARTED,
			       NULL);
		else if (before == BOX_PAUSED)
			(void)freeze(host, box, true, &ignored);
		else
			(void)run_stop(host, box, &ignored);
	}
	boxes_set_state(&host->boxes, box, result == 0 ? BOX_RUNNING : before);
	return end(host, box, result);
}

int life_stop(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	if (box->state == BOX_STOPPED)
		return end(host, box, 0);
	if (box->state == BOX_PAUSED)
		(void)freeze(host, box, false, NULL);
	if (box->state == BOX_RUNNING || box->state == BOX_PAUSED)
		shutdown_hooks(host, &box, 1);
	int result = settle_stopped(host, box, err);
	record(host, box, HISTORY_STOPPED, NULL);
	return end(host, box, result);
}

/* A pidfd of a box whose first process has not ended; one that waits to be reaped has. */
static int open_alive(const struct box *box, struct err *err)
{
	auto_close int fd = box->proc.pid ? box_open(&box->proc, err) : -1;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return fd < 0 || poll(&pfd, 1, 0) != 0 ? -1 : TAKE_FD(fd);
}

int life_ended(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	struct err why;
	auto_close int alive = open_alive(box, &why);
	if (alive >= 0 || (box->state != BOX_RUNNING && box->state != BOX_PAUSED))
		return end(host, box, 0);
	return end(host, box, settle_dead(host, box, err));
}

int life_timeout(struct host *host, const char *id, double seconds, double idle, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	pthread_mutex_lock(&host->boxes.lock);
	if (!isnan(seconds))
		box->deadline = deadline_after((int64_t)ceil(seconds * 1000));
	if (!isnan(idle)) {
		box->idle_ms = llround(idle * 1000);
		if (!json_is_boolean(json_object_get(box->spec, "auto_resume")))
			box->auto_resume = box->idle_ms || !strcmp(box->id, "default");
	}
	pthread_mutex_unlock(&host->boxes.lock);
	return end(host, box, save(host, box, box->state, err));
}

int life_readdress(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	bool alive = box->state == BOX_RUNNING || box->state == BOX_PAUSED;
	return end(host, box, alive ? run_connect(host, box, network_update, err) : 0);
}

int life_reconnect(struct host *host, const char *id, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0)
		return -1;
	if (box->state != BOX_RUNNING)
		return end(host, box, 0);
	int result = run_connect(host, box, network_repair, err);
	if (result == 0)
		history_add(host, box, HISTORY_RECONNECTED,
			    &(struct history_text){ "its way out had ended" });
	return end(host, box, result);
}

/* Of any user, wherever homes are. */
static bool is_no_profile(const char *path, const struct stat *st)
{
	static const char profile[] = "/" BROWSER_PROFILE;
	size_t len = strlen(path), tail = sizeof profile - 1;
	return !S_ISDIR(st->st_mode) || len < tail || strcmp(path + len - tail, profile) != 0;
}

/* Where it is not what is_no_profile() knows. */
static int check_profile(const struct box *box, struct err *err)
{
	const char *place = text(json_object_get(box->spec, "env"), "AIO_BROWSER_PROFILE");
	if (!place || !*place)
		return 0;
	return err_set(
		err, ERR_CONFLICT,
		"the browser's profile is at '%.200s', by AIO_BROWSER_PROFILE, and a snapshot "
		"cannot leave it out from there: set include_browser, if its cookies may be "
		"in the template",
		place);
}

int life_snapshot(struct host *host, const char *id, bool browser, const char *to, struct err *err)
{
	struct box *box;
	char cgroup[64];
	if (begin(host, id, &box, err) < 0)
		return -1;
	if (!browser && check_profile(box, err) < 0)
		return end(host, box, -1);
	auto_free char *dir = host_path(host, "boxes", id, "");
	return end(host, box,
		   box_snapshot(dir, running_cgroup(host, box, cgroup, sizeof cgroup),
				browser ? NULL : is_no_profile, to, err));
}

struct box *life_fork(struct host *host, const char *id, json_t *spec, struct err *err)
{
	struct box *box;
	if (begin(host, id, &box, err) < 0) {
		json_decref(spec);
		return NULL;
	}
	struct box *made = create(host, spec, box, err);
	if (made)
		record(host, box, HISTORY_FORKED, made->id);
	end(host, box, 0);
	return made;
}

/* ---- after a crash ---- */

/* 0 when it is all there. */
static int read_box(const json_t *d, struct box *box)
{
	const char *token = text(d, "token"), *secret = text(d, "secret"),
		   *state = text(d, "state");
	const struct deadline_now now = deadline_now();
	int i = 0;
	while (state && box_state_names[i] && strcmp(box_state_names[i], state) != 0)
		i++;
	box->spec = json_incref(json_object_get(d, "spec"));
	if (!json_is_object(box->spec) || !token || !secret || !state || !box_state_names[i])
		return -1;
	box->state = (enum box_state)i;
	snprintf(box->token, sizeof box->token, "%s", token);
	snprintf(box->secret, sizeof box->secret, "%s", secret);
	box->uid_base = (uint32_t)number(d, "uid_base");
	box->created_ms = (int64_t)number(d, "created_ms");
	box->deadline = deadline_read(json_object_get(d, "deadline"), &now);
	box->idle_ms = (int64_t)number(d, "idle_ms");
	box->auto_resume = json_is_true(json_object_get(d, "auto_resume"));
	proc_read(json_object_get(d, "proc"), &box->proc);
	box->used_ms = clock_ms();
	return 0;
}

/* A row that is passed over would cost the box its files: see remove_strays(). */
static int load_box(void *arg, const char *id, const char *doc, struct err *err)
{
	struct host *host = arg;
	json_t *d = json_loads(doc, 0, NULL);
	struct box *box = address_is_id(id) ? boxes_new(id) : NULL;
	bool whole = box && read_box(d, box) == 0;
	json_decref(d);
	if (whole && boxes_add(&host->boxes, box, err) < 0)
		return -1;
	if (whole) {
		boxes_end(&host->boxes, box);
		return 0;
	}
	if (box)
		boxes_free(box);
	return err_set(err, ERR_INTERNAL,
		       "what '%s/store.db' says of the sandbox '%.60s' is damaged; nothing was "
		       "removed: restore the file from a copy, or delete that row of its table "
		       "'box' to give the sandbox up, and start again",
		       host->state, id);
}

static void load_event(void *arg, const char *id, int64_t seq, int64_t at_ms, const char *type,
		       const char *data)
{
	struct host *host = arg;
	struct box *box = boxes_get(&host->boxes, id);
	if (!box)
		return;
	int64_t next = box->next_seq; /* by time they are not in order if the clock was set back */
	box->next_seq = seq;
	boxes_event(&host->boxes, box, at_ms, type, data ? xstrdup(data) : NULL);
	box->next_seq = next > seq ? next : seq + 1;
	boxes_put(&host->boxes, box);
}

/* A box of the store: it still runs, or it is stopped now. */
static void take_back(struct host *host, struct box *box)
{
	struct err err = { 0 };
	if (box->state != BOX_RUNNING && box->state != BOX_PAUSED)
		return;
	int pidfd = open_alive(box, &err);
	if (pidfd < 0) {
		if (life_ended(host, box->id, &err) < 0)
			log_error("box %s has ended, but cannot be stopped: %s", box->id, err.msg);
		return;
	}
	box->pidfd = pidfd;
	box->log_fd = box_log(&box->proc);
	/* A crash in the middle of a pause leaves it frozen and noted as running, or the reverse. */
	(void)freeze(host, box, box->state == BOX_PAUSED, NULL);
	denials_watch(host, box);
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	if (run_connect(host, box, network_repair, &err) < 0)
		log_warn("box %s: repairing its network failed: %s", box->id, err.msg);
	network_denied(dir, &box->denied_at, NULL, NULL); /* what the host before has told */
	log_info("box %s: taken back", box->id);
}

/* Files that no row speaks of: a box that was half made, or half removed. */
static void remove_strays(struct host *host)
{
	auto_free char *path = host_path(host, "boxes", "", "");
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct box *known = boxes_get(&host->boxes, entry->d_name);
		boxes_put(&host->boxes, known);
		if (known || entry->d_name[0] == '.' || !address_is_id(entry->d_name))
			continue;
		struct err err;
		struct box *stray = boxes_new(entry->d_name);
		if (boxes_add(&host->boxes, stray, &err) < 0)
			continue;
		log_info("box %s: half made, removed", entry->d_name);
		if (run_stop(host, stray, &err) < 0 || remove_files(host, stray->id, &err) < 0)
			log_error("box %s: removing what was half made failed: %s", entry->d_name,
				  err.msg);
		boxes_drop(&host->boxes, stray);
		boxes_end(&host->boxes, stray);
	}
	if (dir)
		closedir(dir);
}

/* What was claimed is gone when the machine has been started again, and another host may have been
 * faster: then a box that does not run gets other ids. Its files carry none of them. */
static void claim_ids(struct host *host, struct box *const *list, size_t count)
{
	auto_free uint32_t *taken = bases_of(list, count);
	const struct uids uids = uids_of(host);
	uids_keep(&uids, taken, count);
	for (size_t i = 0; i < count; i++) {
		struct err err = { 0 };
		uint32_t base = uids_take(&uids, taken[i], taken, count, &err);
		auto_close int alive = base == taken[i] ? -1 : open_alive(list[i], &err);
		if (base == taken[i])
			continue;
		if (base && alive < 0) {
			list[i]->uid_base = taken[i] = base;
			continue;
		}
		log_warn("box %s: its user ids are claimed by another host: %s", list[i]->id,
			 base ? "it runs" : err.msg);
	}
}

static int load(struct host *host, struct err *err)
{
	struct store_reader reader = { load_box, load_event, host };
	if (store_load(host->store, &reader, err) < 0)
		return -1;
	remove_strays(host);
	return 0;
}

int life_recover(struct host *host, struct err *err)
{
	if (load(host, err) < 0)
		return -1;
	size_t count;
	struct box **list = boxes_list(&host->boxes, &count);
	int result = 0;
	claim_ids(host, list, count);
	for (size_t i = 0; i < count; i++) {
		result = result < 0 ? -1 : make_auth(host, list[i], err);
		if (result == 0)
			take_back(host, list[i]);
		boxes_put(&host->boxes, list[i]);
	}
	free(list);
	return result;
}

int life_end_left(struct host *host, size_t *ret_count, struct err *err)
{
	size_t count;
	*ret_count = 0;
	if (load(host, err) < 0)
		return -1;
	int result = 0;
	host->part_by_ms = clock_ms() + PART_MS;
	struct box **list = boxes_list(&host->boxes, &count);
	for (size_t i = 0; i < count; i++) {
		struct err why;
		struct box *box = list[i];
		box->pidfd = open_alive(box, &why);
		box->log_fd = box->pidfd < 0 ? -1
					     : box_log(&box->proc); /* what it still says is kept */
		*ret_count += box->pidfd >= 0;
		result |= life_stop(host, box->id, err);
		boxes_put(&host->boxes, box);
	}
	free(list);
	return result;
}
