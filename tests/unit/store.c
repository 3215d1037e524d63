#include "host/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

struct seen {
	int boxes, events;
};

static int see_box(void *arg, const char *id, const char *doc, struct err *err)
{
	(void)err;
	CHECK_STR(id, "kept");
	CHECK_STR(doc, "{}");
	((struct seen *)arg)->boxes++;
	return 0;
}

static void see_event(void *arg, const char *id, int64_t seq, int64_t at_ms, const char *type,
		      const char *data)
{
	(void)at_ms, (void)type, (void)data;
	CHECK_STR(id, "kept");
	CHECK(seq == 2 || seq == 3);
	((struct seen *)arg)->events++;
}

static int count_box(void *arg, const char *id, const char *doc, struct err *err)
{
	(void)id, (void)doc;
	if (++((struct seen *)arg)->boxes == 3)
		return err_set(err, ERR_INTERNAL, "not this one");
	return 0;
}

/* Overwrites the head of the page with a text in it. */
static void damage(const char *path, const char *text)
{
	static char data[1 << 20];
	FILE *file = fopen(path, "r+e");
	size_t len = file ? fread(data, 1, sizeof data, file) : 0;
	const char *found = memmem(data, len, text, strlen(text));
	CHECK(found);
	if (found) {
		CHECK(fseek(file, (found - data) / 4096 * 4096, SEEK_SET) == 0);
		CHECK(fwrite("damaged!", 1, 8, file) == 8);
	}
	if (file)
		CHECK(fclose(file) == 0);
}

/* Rows that cannot be read are not rows that are not there. */
static void test_unreadable(void)
{
	struct err err = { 0 };
	struct seen seen = { 0 };
	struct store_reader reader = { count_box, see_event, &seen };
	struct store *store = store_open("bad", &err);
	for (int i = 0; i < 4; i++) { /* each on a page of its own */
		char id[16], doc[3001];
		snprintf(id, sizeof id, "box%d", i);
		snprintf(doc, sizeof doc, "{\"page\":\"%d\",\"filler\":\"%02900d\"}", i, 0);
		CHECK(store && store_put(store, id, doc, &err) == 0);
	}
	CHECK(store && store_load(store, &reader, &err) < 0);
	CHECK_STR(err.msg, "not this one"); /* the reader's word */
	CHECK(seen.boxes == 3);
	store_close(store);

	damage("bad", "\"page\":\"2\"");
	seen.boxes = 0;
	err = (struct err){ 0 };
	store = store_open("bad", &err);
	CHECK(store && store_load(store, &reader, &err) < 0);
	CHECK(seen.boxes == 2 && strstr(err.msg, "cannot be read"));
	store_close(store);
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
	test_unreadable();
	CHECK(chdir("/") == 0);
	static const char *const files[] = {
		"db", "db-wal", "db-shm", "bad", "bad-wal", "bad-shm"
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char file[64];
		snprintf(file, sizeof file, "%s/%s", path, files[i]);
		unlink(file);
	}
	CHECK(rmdir(path) == 0);
	return tap_done();
}
