#include "host/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
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

/* --- claims ---------------------------------------------------------------------------------- */

enum { NAME_MAX_LEN = 16 };

static void name_of(uint32_t base, char to[NAME_MAX_LEN])
{
	snprintf(to, NAME_MAX_LEN, "%u", base / UIDS_COUNT);
}

/* The directory, and until close_claims() nobody else looks into it. */
static int open_claims(const char *claims, struct err *err)
{
	auto_free char *above = xstrdup(claims);
	*strrchr(above, '/') = 0;
	if ((mkdir(above, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(claims, 0700) < 0 && errno != EEXIST))
		return err_set(err, errno, "mkdir '%s'", claims);
	auto_close int dir = open(claims, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || flock(dir, LOCK_EX) < 0)
		return err_set(err, errno, "'%s'", claims);
	return TAKE_FD(dir);
}

/* A process that another thread has forked may have the descriptor too, for long: closing it is not
 * enough. */
static void close_claims(const int *dir)
{
	if (*dir < 0)
		return;
	(void)flock(*dir, LOCK_UN);
	close(*dir);
}
#define auto_claims __attribute__((cleanup(close_claims)))

/* Whether it is a claim, and of whom. */
static bool read_claim(int dir, const char *name, char to[PATH_MAX])
{
	ssize_t n = readlinkat(dir, name, to, PATH_MAX - 1);
	to[n < 0 ? 0 : n] = 0;
	return n > 0;
}

/* A host whose state directory is gone has no boxes. */
static bool claim(int dir, uint32_t base, const char *state)
{
	char name[NAME_MAX_LEN], whose[PATH_MAX];
	name_of(base, name);
	if (symlinkat(state, dir, name) == 0)
		return true;
	if (errno != EEXIST || !read_claim(dir, name, whose))
		return false;
	if (!strcmp(whose, state))
		return true;
	return access(whose, F_OK) < 0 && errno == ENOENT && unlinkat(dir, name, 0) == 0 &&
	       symlinkat(state, dir, name) == 0;
}

static bool is_in(uint32_t base, const uint32_t *list, size_t count)
{
	while (count--)
		if (list[count] == base)
			return true;
	return false;
}

void uids_release(const struct uids *uids, uint32_t base)
{
	char name[NAME_MAX_LEN], whose[PATH_MAX];
	auto_claims int dir = ids_mapped() ? open_claims(uids->claims, NULL) : -1;
	name_of(base, name);
	if (dir >= 0 && read_claim(dir, name, whose) && !strcmp(whose, uids->state))
		(void)unlinkat(dir, name, 0);
}

void uids_keep(const struct uids *uids, const uint32_t *taken, size_t count)
{
	char whose[PATH_MAX];
	auto_claims int fd = ids_mapped() ? open_claims(uids->claims, NULL) : -1;
	DIR *dir = fd < 0 ? NULL : dir_open_at(fd, ".", 0);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		uint32_t base = (uint32_t)strtoul(entry->d_name, NULL, 10) * UIDS_COUNT;
		if (read_claim(fd, entry->d_name, whose) && !strcmp(whose, uids->state) &&
		    !is_in(base, taken, count))
			(void)unlinkat(fd, entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

/* --- ranges ---------------------------------------------------------------------------------- */

uint32_t uids_take(const struct uids *uids, uint32_t wanted, const uint32_t *taken, size_t count,
		   struct err *err)
{
	enum { RANGES = (UIDS_LAST - UIDS_FIRST) / UIDS_COUNT + 1 };
	uint32_t given[GIVEN_MAX];
	int given_count = ids_ranges(given, GIVEN_MAX);
	if (given_count >= 0)
		return wanted ? wanted : pick_given(given, given_count, taken, count, err);
	auto_claims int dir = open_claims(uids->claims, err);
	if (dir < 0)
		return 0;
	if (wanted && claim(dir, wanted, uids->state))
		return wanted;
	auto_free char *users = read_text("/etc/subuid"), *groups = read_text("/etc/subgid");
	auto_free bool *used = xcalloc(RANGES, sizeof *used);
	for (size_t i = 0; i < count; i++)
		if (taken[i] >= UIDS_FIRST && taken[i] <= UIDS_LAST)
			used[(taken[i] - UIDS_FIRST) / UIDS_COUNT] = true;
	for (uint32_t i = 0; i < RANGES; i++) {
		uint32_t at = (uids->seed + i) % RANGES, base = UIDS_FIRST + at * UIDS_COUNT;
		if (!used[at] && !uids_overlap(base, users) && !uids_overlap(base, groups) &&
		    claim(dir, base, uids->state))
			return base;
	}
	err_set(err, ERR_LIMIT, "no range of user ids is left for another sandbox");
	return 0;
}
