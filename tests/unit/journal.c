#include "journal/journal.h"

#include <sys/eventfd.h>

#include "base/arena.h"
#include "base/own.h"
#include "tap.h"

static struct arena arena;

static void add(const char *path)
{
	journal_add(JOURNAL_FILE_WRITTEN, &(struct journal_file){ path, "write", 1 });
}

static size_t read_all(struct journal_reader *reader, struct journal_item **ret)
{
	return journal_read(reader, &arena, SIZE_MAX, ret);
}

static bool is_signalled(int fd)
{
	eventfd_t count;
	return eventfd_read(fd, &count) == 0;
}

static void waking(int fd)
{
	struct journal_reader reader = { .after = -1, .kinds = JOURNAL_ALL, .fd = fd };
	struct journal_item *items;
	journal_join(&reader);
	CHECK(read_all(&reader, &items) == 0 && !is_signalled(fd));
	add("/a");
	CHECK(is_signalled(fd));
	add("/b"); /* it knows already */
	CHECK(!is_signalled(fd));
	CHECK(read_all(&reader, &items) == 2 && items[1].seq == items[0].seq + 1);
	CHECK_STR(items[0].kind, "file_written");
	CHECK(strstr(items[0].json.data,
		     "\"data\":{\"path\":\"/a\",\"operation\":\"write\",\"bytes\":1}}"));
	add("/c"); /* it has not looked since: there may be more to read */
	CHECK(!is_signalled(fd));
	CHECK(read_all(&reader, &items) == 1 && read_all(&reader, &items) == 0);
	journal_leave(&reader);
	add("/d");
	CHECK(!is_signalled(fd));
}

static void falling_behind(void)
{
	struct journal_reader reader = { .after = -1, .kinds = JOURNAL_ALL, .fd = -1 };
	struct journal_item *items;
	CHECK(read_all(&reader, &items) == 4);
	int64_t had = reader.after;
	for (int i = 0; i < JOURNAL_COUNT_MAX; i++)
		add("/more");
	CHECK(reader.after == had && journal_read(&reader, &arena, 1, &items) == 1);
	CHECK_STR(items[0].kind, "file_written"); /* as many as fit: none is lost yet */
	add("/one");
	add("/two");
	CHECK(journal_read(&reader, &arena, 1, &items) == 1);
	CHECK_STR(items[0].kind, "lost");
	CHECK(journal_read(&reader, &arena, 1, &items) == 1 && items[0].seq == reader.after);
	CHECK_STR(items[0].kind, "file_written");
	reader = (struct journal_reader){ .after = -1, .kinds = JOURNAL_ALL, .fd = -1 };
	CHECK(read_all(&reader, &items) == JOURNAL_COUNT_MAX);
}

static void running(void)
{
	struct journal_reader reader = { .after = -1, .kinds = 1u << JOURNAL_CODE_ENDED, .fd = -1 };
	struct journal_item *items;
	const struct journal_started started = { "python", NULL, NULL, { "x", 1 }, 0 };
	journal_end(journal_begin(JOURNAL_CODE_STARTED, &started), "ok", INT_ABSENT);
	journal_end(NULL, "ok", 0);
	CHECK(read_all(&reader, &items) == 1);
	CHECK(strstr(items[0].json.data,
		     "{\"language\":\"python\",\"session_id\":null,\"status\":\"ok\","
		     "\"exit_code\":null,\"duration_ms\":0}"));
}

int main(void)
{
	auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	waking(fd);
	falling_behind();
	running();
	arena_done(&arena);
	return tap_done();
}
