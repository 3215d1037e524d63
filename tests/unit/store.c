#include "host/store.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

struct seen {
	int boxes, events;
};

static void see_box(void *arg, const char *id, const char *doc)
{
	CHECK_STR(id, "kept");
	CHECK_STR(doc, "{}");
	((struct seen *)arg)->boxes++;
}

static void see_event(void *arg, const char *id, int64_t seq, int64_t at_ms, const char *type,
		      const char *data)
{
	(void)at_ms, (void)type, (void)data;
	CHECK_STR(id, "kept");
	CHECK(seq == 2 || seq == 3);
	((struct seen *)arg)->events++;
}

int main(void)
{
	char path[] = "/tmp/aio-store.XXXXXX";
	struct err err = { 0 };
	CHECK(mkdtemp(path) && chdir(path) == 0);
	struct store *store = store_open("db", &err);
	if (!store) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	CHECK(store_put(store, "kept", "{}", &err) == 0);
	CHECK(store_put(store, "gone", "{}", &err) == 0);
	for (int i = 1; i <= 3; i++)
		store_event(store, "kept", i, i, "exec", "{}", 2);
	store_event(store, "gone", 1, 1, "exec", "{}", 2);
	CHECK(store_delete(store, "gone", &err) == 0);
	store_event(store, "gone", 2, 2, "exec", "{}", 2); /* of who had not heard of it yet */
	store_close(store);

	struct seen seen = { 0 };
	struct store_reader reader = { see_box, see_event, &seen };
	store = store_open("db", &err);
	CHECK(store && store_load(store, &reader, &err) == 0);
	CHECK(seen.boxes == 1 && seen.events == 2);
	store_close(store);
	CHECK(chdir("/") == 0);
	static const char *const files[] = { "db", "db-wal", "db-shm" };
	for (int i = 0; i < 3; i++) {
		char file[64];
		snprintf(file, sizeof file, "%s/%s", path, files[i]);
		unlink(file);
	}
	CHECK(rmdir(path) == 0);
	return tap_done();
}
