#include "service/service.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "journal/journal.h"
#include "proc/environment.h"
#include "proc/limits.h"
#include "proc/user.h"
#include "tap.h"

enum { LONG_MS = 50000, IDLE_MS = 200 };

static struct err err;
static char self[4096], dir[] = "/tmp/service.XXXXXX";

/* ---- programs ---- */

/* What runs: a script, or this program again as a server at an address. */
struct fixture {
	const char *script;
	const char *at[3]; /* "unix", "tcp" or "display", and where */
	struct ready ready;
	_Atomic int failures, done;
	_Atomic bool busy;
};

static const char *find(void *arg, struct arena *arena, struct err *why)
{
	const struct fixture *fixture = arg;
	(void)arena;
	(void)why;
	return fixture->script ? "/bin/sh" : self;
}

static const char *find_nothing(void *arg, struct arena *arena, struct err *why)
{
	(void)arg;
	(void)arena;
	err_set(why, ERR_UNAVAILABLE, "xyz is not installed");
	return NULL;
}

static int prepare(struct service_run *run, struct service_start *start, struct err *why)
{
	const struct fixture *fixture = run->arg;
	const char *const argv[] = { fixture->script ? "sh" : self,
				     fixture->script ? "-c" : fixture->at[0],
				     fixture->script ? fixture->script : fixture->at[1], NULL };
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(why, ERR_LIMIT, "no sockets");
	char **copy = arena_alloc(start->arena, sizeof argv);
	memcpy(copy, argv, sizeof argv);
	run->in = ends[0];
	start->program.spawn.fds[1] = ends[1];
	start->program.spawn.argv = copy;
	start->program.spawn.env = environ;
	start->ready = fixture->ready;
	start->ready.fd = run->in;
	return 0;
}

static void note_failure(void *arg, const char *reason)
{
	(void)reason;
	((struct fixture *)arg)->failures++;
}

static bool busy(struct service_run *run)
{
	return ((struct fixture *)run->arg)->busy;
}

static void done(void *arg)
{
	((struct fixture *)arg)->done++;
}

#define ROW                                                                               \
	.title = "the fixture", .find = find, .prepare = prepare, .failed = note_failure, \
	.done = done, .start_ms = LONG_MS, .grace_ms = 1000, .busy = busy,                \
	.install = "apt-get install xyz"

static struct wait for_long(void)
{
	return (struct wait){ clock_ms() + LONG_MS, -1, -1 };
}

static struct service_run *use(struct service *service)
{
	struct wait wait = for_long();
	return service_use(service, &wait, &err);
}

/* Removes it, and returns when nothing uses the row or the fixture any more. */
static void drop(struct service *service, struct fixture *fixture)
{
	int before = fixture->done;
	service_remove(service, "it was removed");
	while (fixture->done == before)
		poll(NULL, 0, 5);
}

static bool becomes(struct service *service, enum service_state state)
{
	char reason[500];
	for (int64_t until = clock_ms() + LONG_MS; clock_ms() < until; poll(NULL, 0, 5))
		if (service_look(service, reason, sizeof reason) == state)
			return true;
	return false;
}

static struct service_info info(const char *name)
{
	static struct arena arena;
	struct service_info *list, found = { 0 };
	arena_done(&arena);
	for (size_t count = service_list(&arena, &list); count--;)
		if (!strcmp(list[count].name, name))
			found = list[count];
	return found;
}

/* Whether a use fails, with this in its error. */
static bool refused(struct service *service, const char *words)
{
	struct service_run *run = use(service);
	bool right = !run && strstr(err.msg, words);
	if (!right)
		printf("# %s\n", run ? "it was not refused" : err.msg);
	service_release(run);
	return right;
}

/* ---- readiness ---- */

/* This program as a server. */
static int serve(const char *how, const char *at)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)strtol(at, NULL, 10)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool tcp = !strcmp(how, "tcp");
	snprintf(local.sun_path, sizeof local.sun_path, "%s", at);
	int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
	poll(NULL, 0, 100); /* who does not wait for it comes too early */
	if (bind(fd, tcp ? (void *)&in : (void *)&local, tcp ? sizeof in : sizeof local) < 0 ||
	    listen(fd, 8) < 0)
		return 1;
	pause();
	return 0;
}

static bool connects(const char *how, const char *at)
{
	const struct ready ready = { .how = !strcmp(how, "tcp") ? READY_TCP : READY_UNIX,
				     .path = at,
				     .number = (int)strtol(at, NULL, 10) };
	const struct wait now = { 0, -1, -1 };
	return ready_wait(&ready, NULL, &now) == WAKE_READY;
}

static int free_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	auto_close int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(fd, (void *)&in, sizeof in) == 0 && getsockname(fd, (void *)&in, &len) == 0);
	return ntohs(in.sin_port);
}

static void test_ready_at(const char *how, const char *at, struct ready ready)
{
	struct fixture fixture = { .at = { how, at }, .ready = ready };
	const struct service_row row = { ROW, .name = "ready" };
	struct service *service = service_add(&row, &fixture);
	CHECK(!connects(how, at));
	struct service_run *run = use(service);
	CHECK(run && connects(how, at));
	service_release(run);
	drop(service, &fixture);
	CHECK(!connects(how, at));
	unlink(at);
}

static void test_ready(void)
{
	char path[100], port[20], display[100];
	int number = free_port();
	snprintf(path, sizeof path, "%s/socket", dir);
	test_ready_at("unix", path, (struct ready){ .how = READY_UNIX, .path = path });
	snprintf(port, sizeof port, "%d", number);
	test_ready_at("tcp", port, (struct ready){ .how = READY_TCP, .number = number });
	if (mkdir("/tmp/.X11-unix", 01777) == 0) /* for other users too, whatever the umask */
		(void)chmod("/tmp/.X11-unix", 01777);
	snprintf(display, sizeof display, "/tmp/.X11-unix/X%d", number);
	test_ready_at("display", display, (struct ready){ .how = READY_DISPLAY, .number = number });
}

static void test_ready_line(void)
{
	struct fixture fixture = { .script = "echo ready; echo more; exec sleep 100",
				   .ready = { READY_LINE } };
	const struct service_row row = { ROW, .name = "line" };
	struct service *service = service_add(&row, &fixture);
	struct service_run *run = use(service);
	struct wait wait = for_long();
	char more[6] = "";
	CHECK(run && wait_fd(&wait, run->in, POLLIN) == WAKE_READY && read(run->in, more, 5) == 5);
	CHECK_STR(more, "more\n"); /* what follows the line is left to the user */
	service_release(run);
	drop(service, &fixture);
}

static void test_never_ready(void)
{
	struct fixture late = { .script = "exec sleep 100", .ready = { READY_LINE } };
	struct fixture mute = { .script = "exec sleep 100 >&-", .ready = { READY_LINE } };
	struct service_row row = { ROW, .name = "late" };
	row.start_ms = 100;
	struct service *service = service_add(&row, &late), *other = service_add(&row, &mute);
	CHECK(refused(service, "it was not ready within"));
	CHECK(refused(other, "it was not ready within"));
	drop(service, &late);
	drop(other, &mute);
}

/* ---- starts ---- */

static void *use_once(void *arg)
{
	struct wait wait = for_long();
	struct err why;
	struct service_run *run = service_use(arg, &wait, &why);
	bool used = run;
	service_release(run);
	return used ? arg : NULL;
}

static void test_shared_start(void)
{
	struct fixture fixture = { .script = "sleep 0.2; echo; exec sleep 100",
				   .ready = { READY_LINE } };
	const struct service_row row = { ROW, .name = "shared" };
	struct service *service = service_add(&row, &fixture);
	pthread_t threads[8];
	int used = 0;
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_create(&threads[i], NULL, use_once, service);
	for (size_t i = 0; i < COUNT(threads); i++) {
		void *result;
		pthread_join(threads[i], &result);
		used += result != NULL;
	}
	CHECK(used == COUNT(threads) && info("shared").starts == 1);
	drop(service, &fixture);
}

static void test_caller_leaves(void)
{
	struct fixture fixture = { .script = "sleep 0.3; echo; exec sleep 100",
				   .ready = { READY_LINE } };
	const struct service_row row = { ROW, .name = "left" };
	struct service *service = service_add(&row, &fixture);
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	close(ends[1]);
	const struct wait left = { clock_ms() + LONG_MS, ends[0], -1 };
	CHECK(!service_use(service, &left, &err) && err.code == ERR_GONE);
	const struct wait brief = { clock_ms() + 1, -1, -1 };
	CHECK(!service_use(service, &brief, &err) && strstr(err.msg, "still starting"));
	service_release(use(service));
	CHECK(info("left").starts == 1 && info("left").failures == 0);
	close(ends[0]);
	drop(service, &fixture);
}

static void test_back_off(void)
{
	char reason[500];
	struct fixture fixture = { .script = "echo 'so sorry' >&2; exit 3",
				   .ready = { READY_LINE } };
	struct service_row row = { ROW, .name = "failing" };
	row.retry_ms = 1500;
	struct service *service = service_add(&row, &fixture);
	CHECK(refused(service, "the fixture is unavailable: it ended with exit code 3: so sorry"));
	int64_t failed_ms = clock_ms();
	CHECK(err.code == ERR_UNAVAILABLE && fixture.failures == 1);
	CHECK(service_look(service, reason, sizeof reason) == SERVICE_FAILED);
	CHECK_STR(reason, "it ended with exit code 3: so sorry");
	CHECK(refused(service, "so sorry") && !service_begin(service));
	CHECK(info("failing").starts == 1 || clock_ms() - failed_ms > row.retry_ms / 2);
	for (int64_t until = clock_ms() + LONG_MS;
	     info("failing").starts == 1 && clock_ms() < until; poll(NULL, 0, 20))
		(void)refused(service, "so sorry");
	CHECK(info("failing").starts == 2 && info("failing").failures == 2);
	CHECK(clock_ms() - failed_ms >= row.retry_ms / 2);
	drop(service, &fixture);
}

static void test_missing(void)
{
	char reason[500];
	struct fixture fixture = { 0 };
	struct service_row row = { ROW, .name = "missing" };
	row.find = find_nothing;
	struct service *service = service_add(&row, &fixture);
	CHECK(refused(service, "xyz is not installed: apt-get install xyz"));
	CHECK(service_look(service, reason, sizeof reason) == SERVICE_FAILED);
	CHECK(info("missing").starts == 0);
	drop(service, &fixture);
	CHECK(fixture.done == 1);
}

static void test_limits(void)
{
	struct fixture fixture = { .script = "exec sleep 100" };
	struct service_row row = { ROW, .name = "large" };
	row.retry_ms = 1;
	row.pids = 100;
	row.memory = 2ll << 30;
	struct service *service = service_add(&row, &fixture);
	limits_use(&(struct limits){ .pids = 64, .pids_fd = -1, .oom_fd = -1 });
	CHECK(refused(service, "needs 100 processes and threads, and this sandbox may have 64"));
	CHECK(err.code == ERR_LIMIT);
	drop(service, &fixture);
	service = service_add(&row, &fixture);
	limits_use(&(struct limits){ .memory = 1 << 30, .pids_fd = -1, .oom_fd = -1 });
	CHECK(refused(service, "needs 2048 MiB of memory, and this sandbox has 1024 MiB"));
	limits_use(&(struct limits){ .pids_fd = -1, .oom_fd = -1 });
	drop(service, &fixture);
}

static void test_refused(void)
{
	struct fixture fixture = { .script = "exec sleep 100" };
	struct service_row row = { ROW, .name = "jupyter" };
	setenv("DISABLE_JUPYTER", "Yes", 1);
	struct service *service = service_add(&row, &fixture);
	CHECK(refused(
		service,
		"the fixture is unavailable: it is disabled by the variable DISABLE_JUPYTER"));
	drop(service, &fixture);
	setenv("DISABLE_JUPYTER", "false", 1);
	service = service_add(&row, &fixture);
	service_release(use(service));
	CHECK(info("jupyter").starts == 1);
	service_ref(service);
	service_remove(service, "it was removed");
	CHECK(refused(service, "the fixture is unavailable: it was removed"));
	int before = fixture.done;
	service_unref(service);
	while (fixture.done == before)
		poll(NULL, 0, 5);
	row.refused = "it is wrong";
	service = service_add(&row, &fixture);
	CHECK(refused(service, "the fixture is unavailable: it is wrong"));
	drop(service, &fixture);
}

/* ---- ends ---- */

static void test_idle(void)
{
	struct fixture fixture = { .script = "exec sleep 100" };
	struct service_row row = { ROW, .name = "idle", .idle_ms = IDLE_MS };
	char reason[500];
	struct service *service = service_add(&row, &fixture);
	struct service_run *run = use(service);
	CHECK(run && program_wait(run->program,
				  &(struct wait){ clock_ms() + 3 * (int64_t)IDLE_MS, -1, -1 },
				  NULL) == WAKE_TIMEOUT);
	CHECK(service_look(service, reason, sizeof reason) == SERVICE_READY);
	service_release(run);
	CHECK(becomes(service, SERVICE_IDLE) && info("idle").failures == 0);
	fixture.busy = true;
	run = use(service);
	CHECK(run && info("idle").starts == 2);
	struct program *program = program_ref(run->program);
	service_release(run);
	CHECK(program_wait(program, &(struct wait){ clock_ms() + 3 * (int64_t)IDLE_MS, -1, -1 },
			   NULL) == WAKE_TIMEOUT);
	fixture.busy = false;
	struct wait wait = for_long();
	CHECK(program_wait(program, &wait, NULL) == WAKE_READY);
	program_unref(program);
	drop(service, &fixture);
}

/* A start that takes longer than the idle time is not wasted: somebody waits for it. */
static void test_idle_at_once(void)
{
	struct fixture fixture = { .script = "sleep 0.2; echo; exec sleep 100",
				   .ready = { READY_LINE } };
	const struct service_row row = { ROW, .name = "brief", .idle_ms = 1 };
	struct service *service = service_add(&row, &fixture);
	struct service_run *run = use(service);
	CHECK(run && info("brief").starts == 1);
	service_release(run);
	drop(service, &fixture);
}

static void test_killed(void)
{
	struct fixture fixture = { .script = "exec sleep 100" };
	const struct service_row row = { ROW, .name = "killed" };
	char why[500];
	struct service *service = service_add(&row, &fixture);
	struct service_run *run = use(service);
	struct wait wait = for_long();
	kill(program_pid(run->program), SIGKILL);
	CHECK(wait_fd(&wait, run->end_fd, POLLIN) == WAKE_READY && run->ending);
	service_why(run, why, sizeof why);
	CHECK_STR(why, "it was killed by SIGKILL");
	struct service_run *next = use(service);
	CHECK(next && next != run && info("killed").starts == 2);
	service_lost(next, "it does not answer");
	service_why(next, why, sizeof why);
	CHECK_STR(why, "it does not answer");
	struct service_run *third = use(service);
	CHECK(third && third != next && program_ended(next->program));
	service_release(run);
	service_release(next);
	service_release(third);
	CHECK(info("killed").failures == 0);
	drop(service, &fixture);
}

static void test_needs(void)
{
	struct fixture below = { .script = "echo; exec sleep 100", .ready = { READY_LINE } };
	struct fixture above = { .script = "echo; exec sleep 100", .ready = { READY_LINE } };
	const struct service_row ground = { ROW, .name = "below", .idle_ms = IDLE_MS };
	const struct service_row row = { ROW, .name = "above",
					 .needs = (const char *const[]){ "below", NULL } };
	struct service *lower = service_add(&ground, &below), *upper = service_add(&row, &above);
	service_release(use(upper));
	CHECK(info("above").state == SERVICE_READY && info("below").state == SERVICE_READY);
	struct service_run *run = use(lower);
	struct wait brief = { clock_ms() + 3 * (int64_t)IDLE_MS, -1, -1 };
	struct program *program = program_ref(run->program);
	service_release(run);
	CHECK(program_wait(program, &brief, NULL) == WAKE_TIMEOUT); /* it is needed */
	kill(program_pid(program), SIGKILL);
	program_unref(program);
	CHECK(becomes(upper, SERVICE_IDLE)); /* what it ran on is gone */
	service_release(use(upper));
	CHECK(info("above").starts == 2 && info("below").starts == 2);
	CHECK(info("above").failures == 0 && info("below").failures == 0);
	drop(upper, &above);
	CHECK(becomes(lower, SERVICE_IDLE)); /* nobody needs it any more */
	drop(lower, &below);
}

static _Atomic int opened, freed;

static int open_value(struct service_run *run, const struct wait *wait, struct err *why)
{
	(void)wait;
	(void)why;
	run->value = &opened;
	opened++;
	return 0;
}

static void free_value(struct service_run *run)
{
	(void)run;
	freed++;
}

/* The run's own thread may be the last to leave it. */
static bool is_freed(int count)
{
	for (int64_t until = clock_ms() + LONG_MS; freed < count && clock_ms() < until;)
		poll(NULL, 0, 5);
	return freed == count;
}

static void test_no_program(void)
{
	struct fixture fixture = { 0 };
	const struct service_row row = { .name = "far",
					 .title = "the far one",
					 .open = open_value,
					 .free = free_value,
					 .done = done,
					 .start_ms = LONG_MS };
	struct service *service = service_add(&row, &fixture);
	struct service_run *run = use(service), *same = use(service);
	CHECK(run && run == same && run->value == &opened && opened == 1);
	service_release(same);
	service_lost(run, "it does not answer");
	service_lost(run, "nor does it now");
	same = use(service);
	CHECK(same && same != run && opened == 2 && freed == 0);
	service_release(run);
	CHECK(is_freed(1));
	service_release(same);
	drop(service, &fixture);
	CHECK(is_freed(2) && fixture.done == 1);
}

static void test_failed_need(void)
{
	struct fixture fixture = { .script = "exec sleep 100" };
	struct service_row ground = { ROW, .name = "absent" };
	ground.find = find_nothing;
	ground.title = "the ground";
	const struct service_row row = { ROW, .name = "above",
					 .needs = (const char *const[]){ "absent", NULL } };
	struct service *lower = service_add(&ground, &fixture),
		       *upper = service_add(&row, &fixture);
	CHECK(refused(upper, "the fixture is unavailable: the ground is unavailable: xyz is not"));
	drop(upper, &fixture);
	drop(lower, &fixture);
}

/* ---- what others see ---- */

static void test_gives(void)
{
	static const struct pair pairs[] = { { "FIXTURE_DISPLAY", ":7" } };
	struct fixture fixture = { 0 };
	const struct service_row row = { ROW, .name = "gives", .gives = { COUNT(pairs), pairs } };
	const struct pair other[] = { { "FIXTURE_DISPLAY", ":8" } };
	struct arena arena = { 0 };
	const struct user user = { .name = "somebody", .home = "/" };
	struct service *service = service_add(&row, &fixture);
	bool given = false, chosen = false;
	setenv("FIXTURE_DISPLAY", ":6", 1);
	for (char **at = environment_make(&arena, &user, "/", NULL); *at; at++)
		given |= !strcmp(*at, "FIXTURE_DISPLAY=:7");
	for (char **at = environment_make(&arena, &user, "/", &(struct list){ 1, other }); *at;
	     at++)
		chosen |= !strcmp(*at, "FIXTURE_DISPLAY=:8");
	CHECK(given && chosen);
	arena_done(&arena);
	drop(service, &fixture);
}

static void test_events(void)
{
	static const char *const wanted[] = { "\"starting\"", "\"ready\"", "\"idle\"" };
	struct fixture fixture = { .script = "exec sleep 100" };
	const struct service_row row = { ROW, .name = "told" };
	struct service *service = service_add(&row, &fixture);
	struct journal_reader reader = { .after = -1, .kinds = 1u << JOURNAL_SERVICE_CHANGED };
	struct arena arena = { 0 };
	struct journal_item *items;
	size_t found = 0;
	service_release(use(service));
	drop(service, &fixture);
	for (size_t count; (count = journal_read(&reader, &arena, 1 << 20, &items)) > 0;)
		for (size_t i = 0; i < count; i++)
			if (strstr(items[i].json.data, "\"told\"") && found < COUNT(wanted) &&
			    strstr(items[i].json.data, wanted[found]))
				found++;
	CHECK(found == COUNT(wanted));
	arena_done(&arena);
}

static void test_end_while_starting(void)
{
	struct fixture fixture = { .script = "exec sleep 100", .ready = { READY_LINE } };
	struct fixture running = { .script = "exec sleep 100" };
	const struct service_row row = { ROW, .name = "starting" };
	const struct service_row bare = {
		.name = "bare", .title = "the bare one", .done = done, .start_ms = LONG_MS
	};
	struct service *service = service_add(&row, &fixture), *other = service_add(&row, &running);
	struct fixture far = { 0 };
	pthread_t thread;
	void *result;
	service_release(use(service_add(&bare, &far)));
	service_release(use(other));
	CHECK(service_begin(service));
	pthread_create(&thread, NULL, use_once, service_ref(service));
	service_stop_all();
	pthread_join(thread, &result);
	CHECK(!result);
	CHECK(refused(other, "the server is stopping"));
	service_unref(service);
	service_end_all();
	CHECK(fixture.done == 1 && running.done == 1 && far.done == 1 && fixture.failures == 0);
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return serve(argv[1], argv[2]);
	CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0 && mkdtemp(dir));
	signal(SIGPIPE, SIG_IGN);
	test_ready();
	test_ready_line();
	test_never_ready();
	test_shared_start();
	test_caller_leaves();
	test_back_off();
	test_missing();
	test_limits();
	test_refused();
	test_idle();
	test_idle_at_once();
	test_killed();
	test_needs();
	test_no_program();
	test_failed_need();
	test_gives();
	test_events();
	test_end_while_starting();
	rmdir(dir);
	return tap_done();
}
