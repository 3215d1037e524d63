#include "session/sessions.h"

#include "base/arena.h"
#include "base/awake.h"
#include "base/err.h"
#include "tap.h"

struct thing {
	struct session base;
	int number;
};

static int filled, ended, freed, last_ended;

static void thing_end(void *arg)
{
	struct thing *thing = arg;
	last_ended = thing->number;
	ended++;
}

static void thing_done(void *arg)
{
	(void)arg;
	freed++;
}

static struct sessions things = {
	.kind = "thing",
	.size = sizeof(struct thing),
	.end = thing_end,
	.done = thing_done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static void thing_fill(void *arg, void *number)
{
	struct thing *thing = arg;
	thing->number = *(int *)number;
	filled++;
}

/* Opens one that was last used so many milliseconds ago, and keeps it. */
static struct thing *open_thing(const char *id, int number, int64_t ago_ms)
{
	struct thing *thing = sessions_open(&things, id, thing_fill, &number, NULL);
	if (thing)
		thing->base.used_ms = awake_ms() - ago_ms;
	return thing;
}

/* The same, and releases it. */
static void add_thing(const char *id, int number, int64_t ago_ms, bool named)
{
	auto_session struct thing *thing = open_thing(id, number, ago_ms);
	thing->base.named = named;
}

static void begin(int64_t most, int64_t idle_ms)
{
	sessions_close_all(&things);
	sessions_limit(&things, most, idle_ms);
	filled = ended = freed = last_ended = 0;
}

static void finds_and_makes(void)
{
	struct err err = { 0 };
	begin(4, 60000);
	struct thing *one = open_thing("one", 1, 0), *again = open_thing("one", 2, 0);
	CHECK(one == again && one->number == 1 && filled == 1);
	CHECK(sessions_find(&things, "one", &err) == one);
	CHECK(!sessions_find(&things, "two", &err) && err.code == ERR_NOT_FOUND);
	CHECK_STR(err.msg, "there is no thing session 'two'");
	CHECK(sessions_close(&things, "one", &err) == 0 && one->base.closed);
	CHECK(ended == 1 && freed == 0);
	for (int i = 0; i < 3; i++)
		sessions_release(one);
	CHECK(freed == 1);
	CHECK(sessions_close(&things, "one", &err) < 0 && err.code == ERR_NOT_FOUND);
}

static void gives_ids(void)
{
	char next[300];
	begin(4, 60000);
	struct thing *first = open_thing(NULL, 1, 0);
	CHECK(sessions_gave(&things, first->base.id));
	CHECK(!sessions_gave(&things, "thing-1") && !sessions_gave(&things, "thing-1-2-3"));
	CHECK(!sessions_gave(&things, "other-1-2") && !sessions_gave(&things, "thing-1-x"));
	/* A client has chosen the next one; the second in between may make that another. */
	snprintf(next, sizeof next, "thing-%llx-%llx", (unsigned long long)time(NULL),
		 (unsigned long long)things.next_id);
	struct thing *chosen = open_thing(next, 2, 0), *second = open_thing("", 3, 0);
	CHECK(strcmp(second->base.id, chosen->base.id) != 0 && second->number == 3);
	sessions_release(first);
	sessions_release(chosen);
	sessions_release(second);
}

static void makes_room(void)
{
	struct err err = { 0 };
	int number = 9;
	begin(3, 60000);
	add_thing("a", 1, 3000, true);
	add_thing("b", 2, 2000, false);
	add_thing("c", 3, 1000, false);
	add_thing("d", 4, 0, false); /* the unnamed one that was idle for longest goes */
	CHECK(last_ended == 2 && sessions_count(&things) == 3);
	struct thing *c = sessions_find(&things, "c", NULL), *d = sessions_find(&things, "d", NULL);
	add_thing("e", 5, 0, true); /* no unnamed one is idle */
	CHECK(last_ended == 1 && ended == 2);
	struct thing *e = sessions_find(&things, "e", NULL);
	CHECK(!sessions_open(&things, "f", thing_fill, &number, &err) && err.code == ERR_LIMIT);
	CHECK_STR(err.msg, "all 3 thing sessions are busy: end one, or raise --max-sessions");
	sessions_release(c);
	CHECK(sessions_evict(&things) && last_ended == 3);
	sessions_release(e);
	CHECK(!sessions_evict(&things)); /* it is named, and the other busy */
	sessions_release(d);
}

static void expires(void)
{
	begin(8, 5000);
	add_thing("old", 1, 6000, true);
	add_thing("young", 2, 4000, false);
	struct thing *brief = open_thing("brief", 3, 3000), *used = open_thing("used", 4, 9000);
	brief->base.idle_ms = 2000;
	sessions_release(brief);
	sessions_expire(&things);
	CHECK(ended == 2 && freed == 2 && sessions_count(&things) == 2);
	sessions_release(used);
	sessions_expire(&things);
	CHECK(last_ended == 4 && sessions_count(&things) == 1);
	/* What expires first makes room first; an own time that is longer than the table's is not. */
	begin(2, 5000);
	add_thing("long", 1, 2000, false);
	struct thing *own = open_thing("own", 2, 1000);
	own->base.idle_ms = 3000;
	sessions_release(own);
	add_thing("more", 3, 0, false);
	CHECK(last_ended == 2);
	struct thing *longest = sessions_find(&things, "long", NULL);
	longest->base.idle_ms = 50000;
	longest->base.used_ms = awake_ms() - 5000;
	sessions_release(longest);
	sessions_expire(&things);
	CHECK(last_ended == 1);
}

static void lists(void)
{
	struct arena arena = { 0 };
	begin(2, 60000);
	add_thing("a", 1, 2000, false);
	add_thing("b", 2, 1000, false);
	size_t count;
	struct thing **all = (struct thing **)sessions_list(&things, &arena, &count);
	CHECK(count == 2 && all[0]->number == 2 && all[1]->number == 1);
	add_thing("c", 3, 0, false); /* one that is listed is not busy, and stays to be looked at */
	CHECK(last_ended == 1 && freed == 0 && all[1]->base.closed);
	arena_done(&arena);
	CHECK(freed == 1);
	CHECK(sessions_close_all(&things) == 2 && freed == 3);
	CHECK(sessions_list(&things, &arena, &count) && count == 0);
	arena_done(&arena);
}

int main(void)
{
	finds_and_makes();
	gives_ids();
	makes_room();
	expires();
	lists();
	return tap_done();
}
