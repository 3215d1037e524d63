#include "observe/reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/timestamp.h"
#include "observe/archive.h"
#include "observe/observe_dir.h"

enum { LOOKED_MAX = 10000, NOTE_MAX = 4096 };
#define PREFIX "report"
#define END    ".tar.gz"

/* Around what changes them. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static const struct field report_fields[] = {
	STR(report, report_id, REQUIRED, "Its name."),
	STR(report, session_id, NULLABLE, "The observation that it is of."),
	STR(report, reason, 0, "Why it was made: `manual`, or `guardrail:` and the rule."),
	STR(report, created_at, REQUIRED, "When."),
	STR(report, path, REQUIRED, "Its file in the sandbox."),
	INT(report, size_bytes, REQUIRED, "Its size."),
};
const struct schema report_schema = SCHEMA(report, "ObservationReportInfo", report_fields);

/* ---- what there is ---- */

/* What was noted beside a report, if that can still be read. */
static void read_note(int dir, struct report *report, struct arena *arena)
{
	char text[NOTE_MAX];
	const char *name = arena_printf(arena, "%s.json", report->report_id);
	auto_close int fd = observe_open(dir, name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
	json_t *note = n > 0 ? json_parse(text, (size_t)n, NULL) : NULL;
	const char *session = json_string_value(json_object_get(note, "session_id"));
	const char *reason = json_string_value(json_object_get(note, "reason"));
	const char *at = json_string_value(json_object_get(note, "created_at"));
	if (session && observe_is_id("obs", session))
		report->session_id = arena_strdup(arena, session);
	if (reason)
		report->reason = arena_strdup(arena, reason);
	if (at && strlen(at) == sizeof "2026-01-31T12:00:00.000000Z" - 1 &&
	    strspn(at, "0123456789-:.TZ") == strlen(at))
		report->created_at = arena_strdup(arena, at);
	json_decref(note);
}

static bool describe(const struct observe_dir *dir, const char *id, struct arena *arena,
		     struct report *ret)
{
	struct stat st;
	const char *name = arena_printf(arena, "%s" END, id);
	if (fstatat(observe_dir_fd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return false;
	*ret = (struct report){
		.report_id = arena_strdup(arena, id),
		.reason = "manual",
		.created_at = timestamp_text(arena, &st.st_mtim),
		.path = arena_printf(arena, "%s/%s", observe_dir_path(dir), name),
		.size_bytes = st.st_size,
	};
	if (!ret->created_at)
		ret->created_at = "1970-01-01T00:00:00.000000Z";
	read_note(observe_dir_fd(dir), ret, arena);
	return true;
}

static int newest_first(const void *a, const void *b)
{
	return strcmp(((const struct report *)b)->report_id, ((const struct report *)a)->report_id);
}

static struct list look(const struct observe_dir *from, struct arena *arena)
{
	enum { SHOWN_MAX = 2 * REPORTS_MAX }; /* programs of the sandbox may have put more there */
	struct report *list = arena_alloc(arena, SHOWN_MAX * sizeof *list);
	size_t count = 0, looked = 0;
	DIR *dir = dir_open_at(observe_dir_fd(from), ".", 0);
	for (struct dirent *entry; dir && looked++ < LOOKED_MAX && (entry = readdir(dir));) {
		char id[256];
		size_t len = strlen(entry->d_name), end = sizeof END - 1;
		if (len <= end || strcmp(entry->d_name + len - end, END) != 0)
			continue;
		snprintf(id, sizeof id, "%.*s", (int)(len - end), entry->d_name);
		if (observe_is_id(PREFIX, id) && count < SHOWN_MAX)
			count += describe(from, id, arena, &list[count]);
	}
	if (dir)
		closedir(dir);
	if (count)
		qsort(list, count, sizeof *list, newest_first);
	return (struct list){ count, list };
}

int reports_list(const struct server *server, struct arena *arena, struct list *ret,
		 struct err *err)
{
	struct observe_dir *dir = observe_dir_enter(server, "reports", err);
	if (!dir)
		return -1;
	*ret = look(dir, arena);
	observe_dir_leave(dir);
	return 0;
}

int reports_count(const struct server *server)
{
	struct arena arena = { 0 };
	struct list list = { 0 };
	(void)reports_list(server, &arena, &list, NULL);
	arena_done(&arena);
	return (int)list.count;
}

static int unknown(const char *id, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, "there is no report '%.80s'", id);
}

int reports_open(const struct server *server, const char *id, struct err *err)
{
	char name[128];
	if (!observe_is_id(PREFIX, id))
		return unknown(id, err);
	snprintf(name, sizeof name, "%s" END, id);
	struct observe_dir *dir = observe_dir_enter(server, "reports", err);
	if (!dir)
		return -1;
	int fd = observe_open(observe_dir_fd(dir), name, O_RDONLY);
	observe_dir_leave(dir);
	return fd < 0 ? unknown(id, err) : fd;
}

/* ---- changing it ---- */

static void unlink_report(int dir, const char *id)
{
	char name[128];
	snprintf(name, sizeof name, "%s" END, id);
	unlinkat(dir, name, 0);
	snprintf(name, sizeof name, "%s.json", id);
	unlinkat(dir, name, 0);
}

int reports_remove(const struct server *server, struct arena *arena, const char *id,
		   struct report *ret, struct err *err)
{
	if (!observe_is_id(PREFIX, id))
		return unknown(id, err);
	struct observe_dir *dir = observe_dir_enter(server, "reports", err);
	if (!dir)
		return -1;
	pthread_mutex_lock(&changing);
	bool found = describe(dir, id, arena, ret);
	if (found)
		unlink_report(observe_dir_fd(dir), id);
	pthread_mutex_unlock(&changing);
	observe_dir_leave(dir);
	return found ? 0 : unknown(id, err);
}

/* The oldest go: their names begin with when they were made. */
static void trim(const struct observe_dir *dir, struct arena *arena)
{
	struct list list = look(dir, arena);
	const struct report *reports = list.items;
	int64_t bytes = 0;
	for (size_t i = 0; i < list.count; i++) {
		bytes += reports[i].size_bytes;
		if (i && (i >= REPORTS_MAX || bytes > REPORTS_BYTES_MAX))
			unlink_report(observe_dir_fd(dir), reports[i].report_id);
	}
}

/* Made under another name, so that one that is there is whole. */
static int write_files(const struct observe_dir *dir, const struct report *report,
		       const struct buf *note, void (*fill)(void *arg, struct archive *archive),
		       void *arg, struct err *err)
{
	char temp[128], name[128], note_name[128];
	int at = observe_dir_fd(dir);
	snprintf(temp, sizeof temp, ".%s.part", report->report_id);
	snprintf(name, sizeof name, "%s" END, report->report_id);
	snprintf(note_name, sizeof note_name, "%s.json", report->report_id);
	auto_close int fd = observe_open(at, temp, O_WRONLY | O_CREAT | O_EXCL);
	struct archive *archive = fd < 0 ? NULL : archive_open(fd, err);
	if (!archive) {
		int code = errno;
		unlinkat(at, temp, 0);
		return fd < 0 ? err_set(err, code, "'%s/%s'", observe_dir_path(dir), temp) : -1;
	}
	archive_add(archive, "report.json", note->data, note->len);
	fill(arg, archive);
	auto_close int beside = observe_open(at, note_name, O_WRONLY | O_CREAT | O_EXCL);
	int result = archive_close(archive, err);
	if (result == 0 && (beside < 0 || write(beside, note->data, note->len) < 0 ||
			    renameat(at, temp, at, name) < 0))
		result = err_set(err, errno, "'%s/%s'", observe_dir_path(dir), name);
	if (result < 0) {
		unlinkat(at, temp, 0);
		unlinkat(at, note_name, 0);
	}
	return result;
}

int reports_make(const struct server *server, struct arena *arena, const char *session_id,
		 const char *reason, void (*fill)(void *arg, struct archive *archive), void *arg,
		 struct report *ret, struct err *err)
{
	char id[64];
	struct timespec now;
	struct jw jw;
	observe_id(PREFIX, id, sizeof id);
	clock_gettime(CLOCK_REALTIME, &now);
	struct observe_dir *dir = observe_dir_enter(server, "reports", err);
	if (!dir)
		return -1;
	struct report report = {
		.report_id = arena_strdup(arena, id),
		.session_id = session_id ? arena_strdup(arena, session_id) : NULL,
		.reason = arena_strdup(arena, reason),
		.created_at = timestamp_text(arena, &now),
		.path = arena_printf(arena, "%s/%s" END, observe_dir_path(dir), id),
	};
	jw_init(&jw, NOTE_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "report_id", report.report_id);
	jw_key_str(&jw, "session_id", report.session_id);
	jw_key_str(&jw, "reason", report.reason);
	jw_key_str(&jw, "created_at", report.created_at);
	jw_key_str(&jw, "aio_version", AIO_VERSION);
	jw_close(&jw, '}');
	pthread_mutex_lock(&changing);
	int result = write_files(dir, &report, &jw.out, fill, arg, err);
	struct report made = { 0 };
	if (result == 0 && !describe(dir, id, arena, &made))
		result = err_set(err, ERR_CONFLICT, "the report '%s' is gone already", id);
	if (result == 0) {
		report.size_bytes = made.size_bytes;
		trim(dir, arena);
		*ret = report;
	}
	pthread_mutex_unlock(&changing);
	jw_done(&jw);
	observe_dir_leave(dir);
	return result;
}
