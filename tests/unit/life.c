/* What the keeper has seen is looked at again under the box's turn. */
#include "base/clock.h"
#include "base/err.h"
#include "host/deadline.h"
#include "host/host.h"
#include "tap.h"

static struct host host = { .keeper_fd = -1 };

static struct box *add(const char *id)
{
	struct err err;
	struct box *box = boxes_new(id);
	box->state = BOX_RUNNING;
	CHECK(boxes_add(&host.boxes, box, &err) == 0);
	boxes_end(&host.boxes, box);
	return box;
}

static void more_time(void)
{
	struct err err = { 0 };
	const struct box *box = add("extended");
	CHECK(life_expire(&host, "extended", &err) == 0); /* it has no deadline any more */
	CHECK(box->state == BOX_RUNNING && host.boxes.count == 1);
	host.boxes.first->deadline = deadline_after(60000);
	CHECK(life_expire(&host, "extended", &err) == 0);
	CHECK(box->state == BOX_RUNNING && !box->busy && host.boxes.count == 1);
	CHECK(life_expire(&host, "gone", &err) < 0 && err.code == ERR_NOT_FOUND);
}

static void not_idle(void)
{
	struct err err = { 0 };
	struct box *box = add("used");
	CHECK(life_pause(&host, "used", "idle", &err) == 0); /* it is to be paused no more */
	CHECK(box->state == BOX_RUNNING);
	box->idle_ms = 60000;
	box->used_ms = clock_ms();
	CHECK(life_pause(&host, "used", "idle", &err) == 0);
	CHECK(box->state == BOX_RUNNING);
	box->used_ms = clock_ms() - 70000;
	box->active = 1;
	CHECK(life_pause(&host, "used", "idle", &err) == 0);
	CHECK(box->state == BOX_RUNNING && !box->busy);
}

int main(void)
{
	boxes_init(&host.boxes);
	more_time();
	not_idle();
	boxes_done(&host.boxes);
	return tap_done();
}
