/* The keeper: one thread that sees boxes end, time run out, memory run out, and collects logs. What
 * takes longer it gives to a thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"
#include "host/deadline.h"
#include "host/denials.h"
#include "host/history.h"
#include "host/host.h"
#include "host/network.h"
#include "host/run.h"
#include "net/offline.h"

enum {
	TICK_MS = 250,
	OOM_TICKS = 8,
	LOG_TICKS = 8,
	LOG_MANY = 16384, /* of the 64 KiB that a pipe holds */
	LOG_MAX = 8 << 20,
	LOG_PIECE = 65536,
	LOG_TURN = 1 << 20, /* bytes that are read at one time: a box may have enlarged its pipe */
	LOG_SECOND = 512 << 10, /* bytes of a box that are kept in a second, */
	LOG_BURST = 1 << 20,    /* after a quiet time */
	LOG_TOLD_MS = 1000,
};

void keeper_notice(struct host *host)
{
	(void)eventfd_write(host->keeper_fd, 1);
}

/* ---- logs ---- */

static void append_log(struct host *host, const char *id, const char *data, size_t len)
{
	auto_free char *path = host_path(host, "log", id, ".log");
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct stat st;
	if (fd < 0)
		return;
	(void)!write(fd, data, len);
	if (fstat(fd, &st) == 0 && st.st_size > LOG_MAX) {
		auto_free char *old = host_path(host, "log", id, ".log.1");
		rename(path, old);
	}
}

/* A log is read on terminals: what a box writes must not be able to drive one. */
static void blunt(char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];
		bool high = i && c >= 0x80 && c < 0xa0 && (unsigned char)data[i - 1] == 0xc2;
		if (high)
			data[i - 1] = '?';
		if (high || (c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
			data[i] = '?';
	}
}

static ssize_t take_log(struct host *host, const struct box *box, char *piece)
{
	pthread_mutex_lock(&host->boxes.lock); /* or its number may be another's by now */
	ssize_t n = box->log_fd < 0 ? -1 : read(box->log_fd, piece, LOG_PIECE);
	if (n == LOG_PIECE)
		(void)fcntl(box->log_fd, F_SETPIPE_SZ, LOG_PIECE);
	pthread_mutex_unlock(&host->boxes.lock);
	return n;
}

/* Whether something was written. */
static bool tell_dropped(struct host *host, struct box *box)
{
	char line[128];
	int64_t now = clock_ms(), dropped = box->log_dropped;
	if (!dropped || now - box->log_told_ms < LOG_TOLD_MS)
		return false;
	int len = snprintf(line, sizeof line,
			   "\n[%lld bytes of log dropped: more than %d KiB per second]\n",
			   (long long)dropped, LOG_SECOND >> 10);
	append_log(host, box->id, line, (size_t)len);
	box->log_told_ms = now;
	box->log_dropped = 0;
	return true;
}

/* A box without a network has nobody outside it to see what it tries: its server reports the names. It may
 * have been taken over, so the event is made here, of a name that has nothing but what names have, and not
 * many are told. */
static void tell_offline(struct host *host, struct box *box, const char *line)
{
	char name[DNS_NAME_MAX + 1];
	int64_t times;
	if (run_network(box->spec) != BOX_NETWORK_NONE ||
	    boxes_state(&host->boxes, box) == BOX_DELETED || !offline_parse(line, name, &times) ||
	    !rate_take(&box->denied, clock_ms()))
		return;
	const struct history_denied event = {
		.time = (double)host_now_ms() / 1000,
		.host = name,
		.port = 0,
		.reason = OFFLINE_REASON,
		.times = times,
	};
	history_add(host, box, HISTORY_DENIED, &event);
}

static void look_for_reports(struct host *host, struct box *box, const char *data, size_t len)
{
	char line[DNS_NAME_MAX + 64];
	for (const char *end = data + len, *next; data < end; data = next + 1) {
		next = memchr(data, '\n', (size_t)(end - data));
		if (!next)
			return;
		size_t n = (size_t)(next - data);
		if (n >= sizeof line || *data != 'd')
			continue;
		memcpy(line, data, n);
		line[n] = 0;
		tell_offline(host, box, line);
	}
}

/* As much as there is room for: a box must not keep the host's disk busy. */
static void keep_log(struct host *host, struct box *box, char *piece, size_t len)
{
	int64_t now = clock_ms();
	int64_t room = box->log_room + (now - box->log_ms) * LOG_SECOND / 1000;
	box->log_room = room < LOG_BURST ? room : LOG_BURST;
	box->log_ms = now;
	size_t kept = (int64_t)len < box->log_room ? len : (size_t)box->log_room;
	(void)tell_dropped(host, box);
	blunt(piece, kept);
	if (kept)
		append_log(host, box->id, piece, kept);
	look_for_reports(host, box, piece, kept);
	box->log_room -= (int64_t)kept;
	box->log_dropped += (int64_t)(len - kept);
}

void keeper_drain(struct host *host, struct box *box)
{
	static pthread_mutex_t in_order = PTHREAD_MUTEX_INITIALIZER;
	auto_free char *piece = xmalloc(LOG_PIECE);
	bool wrote = false;
	pthread_mutex_lock(&in_order);
	ssize_t n = LOG_PIECE;
	for (size_t taken = 0; n == LOG_PIECE && taken < LOG_TURN; taken += LOG_PIECE) {
		n = take_log(host, box, piece);
		if (n > 0)
			keep_log(host, box, piece, (size_t)n);
		wrote |= n > 0;
	}
	wrote |= tell_dropped(host, box);
	pthread_mutex_unlock(&in_order);
	if (wrote && boxes_state(&host->boxes, box) == BOX_DELETED) { /* its log may be gone */
		auto_free char *path = host_path(host, "log", box->id, ".log");
		unlink(path);
	}
}

/* What a box has logged is written when it is much, and else now and then: making and opening files
 * takes longer than writing to them. */
static void check_log(struct host *host, struct box *box, bool now)
{
	int waiting = 0;
	pthread_mutex_lock(&host->boxes.lock);
	if (box->log_fd >= 0 && ioctl(box->log_fd, FIONREAD, &waiting) < 0)
		waiting = 0;
	pthread_mutex_unlock(&host->boxes.lock);
	if (waiting >= LOG_MANY || (now && (waiting || box->log_dropped)))
		keeper_drain(host, box);
}

/* ---- timers ---- */

static void act(struct host *host, struct box *box, void (*fn)(struct host *host, const char *id))
{
	if (!atomic_exchange(&box->acting, true) && host_job(host, fn, box->id) < 0)
		box->acting = false;
}

static void done(struct host *host, struct box *box)
{
	if (box)
		box->acting = false;
	boxes_put(&host->boxes, box);
	keeper_notice(host);
}

static void delete_expired(struct host *host, const char *id)
{
	struct err err;
	struct box *box = boxes_get(&host->boxes, id);
	if (life_expire(host, id, &err) < 0 && err.code != ERR_NOT_FOUND)
		log_warn("box %s: deleting it when its time was over failed: %s", id, err.msg);
	done(host, box);
}

static void pause_idle(struct host *host, const char *id)
{
	struct err err;
	struct box *box = boxes_get(&host->boxes, id);
	/* Somebody may have come meanwhile. */
	if (box && !box->active && life_pause(host, id, "idle", &err) < 0)
		log_warn("box %s: pausing it while idle failed: %s", id, err.msg);
	done(host, box);
}

static void note_end(struct host *host, const char *id)
{
	struct err err;
	struct box *box = boxes_get(&host->boxes, id);
	if (life_ended(host, id, &err) < 0 && err.code != ERR_NOT_FOUND)
		log_warn("box %s: noting its end failed: %s", id, err.msg);
	done(host, box);
}

static void resume_box(struct host *host, const char *id)
{
	struct err err;
	struct box *box = boxes_get(&host->boxes, id);
	if (life_resume(host, id, &err) < 0)
		log_warn("box %s could not be resumed: %s", id, err.msg);
	if (box) /* who asks from now on may mean the next pause */
		box->waking = BOX_LEFT;
	boxes_put(&host->boxes, box);
}

/* Those that requests wait for. The gateway asks again and again; one job waits for the box's turn. */
static void wake_boxes(struct host *host, struct box **list, size_t count)
{
	for (size_t i = 0; i < count && !host->ending; i++) {
		int wanted = BOX_WANTED;
		if (atomic_compare_exchange_strong(&list[i]->waking, &wanted, BOX_COMING) &&
		    host_job(host, resume_box, list[i]->id) < 0)
			list[i]->waking = BOX_WANTED; /* with the next tick */
	}
}

static void check_memory(struct host *host, struct box *box)
{
	char cgroup[64];
	life_cgroup(host, box->id, cgroup, sizeof cgroup);
	int64_t kills = box_oom_kills(cgroup);
	pthread_mutex_lock(&host->boxes.lock);
	int64_t more = kills - box->oom_kills;
	if (more > 0)
		box->oom_kills = kills;
	pthread_mutex_unlock(&host->boxes.lock);
	if (more > 0)
		history_add(host, box, HISTORY_OOM, &(struct history_oom){ more });
}

struct keeper_denied {
	struct host *host;
	struct box *box;
};

static void tell_denied(const char *line, void *arg)
{
	struct keeper_denied *denied = arg;
	struct arena arena = { 0 };
	struct history_denied event = { 0 };
	if (desc_message(history_schema(HISTORY_DENIED), line, strlen(line), &arena, &event) == 0)
		history_add(denied->host, denied->box, HISTORY_DENIED, &event);
	arena_done(&arena);
}

static void mend_network(struct host *host, const char *id)
{
	struct err err;
	struct box *box = boxes_get(&host->boxes, id);
	if (life_reconnect(host, id, &err) < 0 && err.code != ERR_NOT_FOUND)
		log_warn("box %s: repairing its network failed: %s", id, err.msg);
	done(host, box);
}

static void check_network(struct host *host, struct box *box, bool look)
{
	auto_free char *dir = host_path(host, "boxes", box->id, "");
	if (look && !network_works(dir, run_network(box->spec)))
		act(host, box, mend_network);
	network_denied(dir, &box->denied_at, tell_denied, &(struct keeper_denied){ host, box });
}

static void check_box(struct host *host, struct box *box, bool memory)
{
	pthread_mutex_lock(&host->boxes.lock);
	int64_t deadline = box->deadline, idle = box->idle_ms;
	enum box_state state = box->state;
	bool busy = box->busy;
	pthread_mutex_unlock(&host->boxes.lock);
	if (busy)
		return;
	if (deadline && deadline_now().boot_ms >= deadline)
		act(host, box, delete_expired);
	else if (state == BOX_RUNNING && idle && !box->active && clock_ms() - box->used_ms >= idle)
		act(host, box, pause_idle);
	else if (state == BOX_RUNNING && memory && clock_ms() - box->used_ms < 60000)
		check_memory(host, box);
	if (state == BOX_RUNNING && run_network(box->spec) != BOX_NETWORK_NONE)
		check_network(host, box, memory);
}

/* ---- the machine's addresses ---- */

static void readdress(struct host *host, const char *unused)
{
	static pthread_mutex_t in_order =
		PTHREAD_MUTEX_INITIALIZER; /* the last one sees the last */
	size_t count;
	(void)unused;
	pthread_mutex_lock(&in_order);
	struct box **list = boxes_list(&host->boxes, &count);
	for (size_t i = 0; i < count; i++) {
		struct err err;
		if (run_network(list[i]->spec) == BOX_NETWORK_FULL &&
		    life_readdress(host, list[i]->id, &err) < 0 && err.code != ERR_NOT_FOUND)
			log_warn(
				"box %s: updating its network to new addresses of the machine failed: %s",
				list[i]->id, err.msg);
		boxes_put(&host->boxes, list[i]);
	}
	free(list);
	pthread_mutex_unlock(&in_order);
}

/* ---- the loop ---- */

/* Waits for boxes to end, at most a tick. A descriptor may be closed by whoever stops its box just
 * then, and its number be another's: what is told is looked at again under the box's turn. */
static void wait_tick(struct host *host, struct box **list, size_t count)
{
	struct pollfd *pfds = xcalloc(count + 1, sizeof *pfds);
	pfds[0] = (struct pollfd){ .fd = host->keeper_fd, .events = POLLIN };
	bool lively = false;
	pthread_mutex_lock(&host->boxes.lock);
	for (size_t i = 0; i < count; i++) {
		struct box *box = list[i];
		pfds[i + 1] =
			(struct pollfd){ box->acting || box->busy ? -1 : box->pidfd, POLLIN, 0 };
		lively |= box->active || box->idle_ms || box->deadline ||
			  clock_ms() - box->used_ms < 2000;
	}
	pthread_mutex_unlock(&host->boxes.lock);
	poll(pfds, count + 1, lively ? TICK_MS : 4 * TICK_MS);
	eventfd_t ignored;
	if (pfds[0].revents)
		(void)eventfd_read(host->keeper_fd, &ignored);
	for (size_t i = 0; i < count; i++)
		if (pfds[i + 1].revents & POLLIN)
			act(host, list[i], note_end);
	free(pfds);
}

static void *keep(void *arg)
{
	struct host *host = arg;
	int64_t next_ms = 0;
	auto_close int addresses = network_watch();
	for (int tick = 0; !host->stopping;) {
		size_t count;
		struct box **list = boxes_list(&host->boxes, &count);
		wake_boxes(host, list, count);
		wait_tick(host, list, count);
		bool due = clock_ms() >= next_ms;
		if (due) {
			next_ms = clock_ms() + TICK_MS / 2;
			tick++;
			if (network_changed(addresses))
				(void)host_job(host, readdress, "");
			denials_report(host, list, count);
		}
		for (size_t i = 0; i < count; i++) {
			if (due) {
				check_log(host, list[i], tick % LOG_TICKS == 0);
				check_box(host, list[i], tick % OOM_TICKS == 0);
			}
			boxes_put(&host->boxes, list[i]);
		}
		free(list);
	}
	return NULL;
}

int keeper_start(struct host *host, struct err *err)
{
	int code = thread_start_joinable(&host->keeper, keep, host);
	return code ? err_set(err, code, "no thread for the keeper") : 0;
}

void keeper_stop(struct host *host)
{
	host->stopping = true;
	keeper_notice(host);
	pthread_join(host->keeper, NULL);
}
