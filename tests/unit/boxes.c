/* The table of boxes, with as many as a machine has. */
#include "host/boxes.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

enum { BOXES = 2000, LOOKS = 200000 };

static void name_box(char *to, int i)
{
	snprintf(to, BOX_ID_MAX + 1, "box-%d", i);
}

static struct box *add(struct boxes *boxes, int i, struct err *err)
{
	char id[BOX_ID_MAX + 1];
	name_box(id, i);
	struct box *box = boxes_new(id);
	snprintf(box->token, sizeof box->token, "token-%d", i);
	if (boxes_add(boxes, box, err) < 0)
		return NULL;
	boxes_end(boxes, box);
	return box;
}

static bool has(struct boxes *boxes, int i)
{
	char id[BOX_ID_MAX + 1], token[48];
	name_box(id, i);
	int len = snprintf(token, sizeof token, "token-%d", i);
	struct box *box = boxes_get(boxes, id);
	bool found = box && !strcmp(box->id, id);
	boxes_put(boxes, box);
	return found && boxes_have_token(boxes, token, (size_t)len);
}

static int count_known(struct boxes *boxes)
{
	int known = 0;
	for (int i = 0; i < BOXES; i++)
		known += has(boxes, i);
	return known;
}

/* Takes out all with odd numbers. */
static void drop_odd(struct boxes *boxes)
{
	struct err err;
	char id[BOX_ID_MAX + 1];
	for (int i = 1; i < BOXES; i += 2) {
		name_box(id, i);
		struct box *box = boxes_begin(boxes, id, &err);
		boxes_drop(boxes, box);
		boxes_end(boxes, box);
	}
}

static bool is_in_order(struct boxes *boxes, size_t want, int step)
{
	size_t count;
	bool in_order = true;
	struct box **list = boxes_list(boxes, &count);
	for (size_t i = 0; i < count; i++) {
		char id[BOX_ID_MAX + 1];
		name_box(id, (int)i * step);
		in_order = in_order && !strcmp(list[i]->id, id);
		boxes_put(boxes, list[i]);
	}
	free(list);
	return in_order && count == want;
}

/* A look must not cost more because there are many: it takes the lock that all requests need. */
static void test_time(struct boxes *boxes)
{
	char id[BOX_ID_MAX + 1];
	int64_t begun = clock_ms();
	for (int i = 0; i < LOOKS; i++) {
		name_box(id, i % BOXES);
		boxes_put(boxes, boxes_get(boxes, id));
	}
	int64_t took = clock_ms() - begun;
	printf("# %d looks among %d boxes: %lld ms\n", LOOKS, BOXES, (long long)took);
	CHECK(took < 10000);
}

static int count_type(const struct box *box, const char *type)
{
	int count = 0;
	for (size_t i = 0; i < BOX_EVENTS_MAX; i++)
		count += !strcmp(box->events[i].type, type);
	return count;
}

/* Somebody who has themselves refused for hours does not push out what else has happened. */
static void crowds(void)
{
	struct boxes boxes;
	struct err err;
	boxes_init(&boxes);
	struct box *box = add(&boxes, 0, &err);
	int64_t now = 1000, left_out = 0;
	CHECK(boxes_event(&boxes, box, now, "created", NULL) == 1);
	for (int i = 0; i < 4 * BOX_EVENTS_MAX; i++)
		left_out += boxes_event(&boxes, box, now += 1000, "denied", NULL) < 0;
	CHECK(count_type(box, "created") == 1 && left_out > 3 * BOX_EVENTS_MAX);
	CHECK(count_type(box, "denied") >= BOX_EVENTS_MAX / 4);
	CHECK(boxes_event(&boxes, box, now, "exec", NULL) > 0);
	CHECK(boxes_event(&boxes, box, now + 3600000, "denied", NULL) > 0);
	boxes_done(&boxes);
}

int main(void)
{
	struct boxes boxes;
	struct err err;
	boxes_init(&boxes);
	for (int i = 0; i < BOXES; i++)
		if (!add(&boxes, i, &err))
			CHECK(false);
	CHECK(count_known(&boxes) == BOXES && is_in_order(&boxes, BOXES, 1));
	CHECK(!add(&boxes, 7, &err) && err.code == ERR_CONFLICT);
	CHECK(!boxes_get(&boxes, "box-2000") && !boxes_get(&boxes, ""));
	CHECK(!boxes_begin(&boxes, "none", &err) && err.code == ERR_NOT_FOUND);
	test_time(&boxes);
	drop_odd(&boxes);
	CHECK(count_known(&boxes) == BOXES / 2 && !has(&boxes, 1) && has(&boxes, 2));
	CHECK(is_in_order(&boxes, BOXES / 2, 2) && boxes.count == BOXES / 2);
	CHECK(add(&boxes, 1, &err) && has(&boxes, 1));
	boxes_done(&boxes);
	crowds();
	return tap_done();
}
