#include "host/uids.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/ids.h"

enum { FILE_MAX = 1 << 20, GIVEN_MAX = 10000 };

/* Lines of "name:first:count". */
bool uids_overlap(uint32_t base, const char *subids)
{
	for (const char *at = subids; at && *at;) {
		const char *end = at + strcspn(at, "\n");
		const char *first = memchr(at, ':', (size_t)(end - at));
		const char *count = first ? memchr(first + 1, ':', (size_t)(end - first - 1))
					  : NULL;
		if (count) {
			unsigned long long from = strtoull(first + 1, NULL, 10);
			unsigned long long n = strtoull(count + 1, NULL, 10);
			if (n && from < (unsigned long long)base + UIDS_COUNT && from + n > base)
				return true;
		}
		at = *end ? end + 1 : end;
	}
	return false;
}

static char *read_text(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	if (fd >= 0 && fstat(fd, &st) < 0)
		st.st_size = 0;
	size_t size = st.st_size < FILE_MAX ? (size_t)st.st_size : FILE_MAX, len = 0;
	char *data = xcalloc(1, size + 1); /* not more: this is done for every box */
	for (ssize_t n; len < size && (n = read(fd, data + len, size - len)) > 0;)
		len += (size_t)n;
	return data;
}

/* Of those that an ordinary user was given. */
static uint32_t pick_given(const uint32_t *given, int given_count, const uint32_t *taken,
			   size_t count, struct err *err)
{
	for (int i = 0; i < given_count; i++) {
		size_t n = 0;
		while (n < count && taken[n] != given[i])
			n++;
		if (n == count)
			return given[i];
	}
	err_set(err, ERR_LIMIT,
		"each sandbox needs %d user ids of its own, and you have no more than %d "
		"times as many: 'usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST "
		"USER' gives more, from the next start without running boxes on",
		IDS_COUNT, given_count);
	return 0;
}

uint32_t uids_pick(uint32_t seed, const uint32_t *taken, size_t count, struct err *err)
{
	enum { RANGES = (UIDS_LAST - UIDS_FIRST) / UIDS_COUNT + 1 };
	uint32_t given[GIVEN_MAX];
	int given_count = ids_ranges(given, GIVEN_MAX);
	if (given_count >= 0)
		return pick_given(given, given_count, taken, count, err);
	auto_free char *users = read_text("/etc/subuid"), *groups = read_text("/etc/subgid");
	auto_free bool *used = xcalloc(RANGES, sizeof *used);
	for (size_t i = 0; i < count; i++)
		if (taken[i] >= UIDS_FIRST && taken[i] <= UIDS_LAST)
			used[(taken[i] - UIDS_FIRST) / UIDS_COUNT] = true;
	for (uint32_t i = 0; i < RANGES; i++) {
		uint32_t at = (seed + i) % RANGES, base = UIDS_FIRST + at * UIDS_COUNT;
		if (!used[at] && !uids_overlap(base, users) && !uids_overlap(base, groups))
			return base;
	}
	err_set(err, ERR_LIMIT, "no range of user ids is left for another sandbox");
	return 0;
}
