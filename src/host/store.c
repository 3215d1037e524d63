#include "host/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/library.h"
#include "base/log.h"
#include "base/own.h"
#include "base/thread.h"

/* ---- the library ---- */

#define FUNCTIONS(f)                                                                          \
	f(open_v2) f(close) f(exec) f(prepare_v2) f(bind_text) f(bind_int64) f(step) f(reset) \
		f(finalize) f(column_text) f(column_int64) f(errmsg)

static struct {
#define MEMBER(name) __typeof__(&sqlite3_##name) name; /* NOLINT(bugprone-macro-parentheses) */
	FUNCTIONS(MEMBER)
} lite;

#define ROW(name) { "sqlite3_" #name, &lite.name },
static const struct library_symbol symbols[] = { FUNCTIONS(ROW) };
static struct library library = LIBRARY("libsqlite3.so.0", "libsqlite3-0", symbols);

/* ---- statements ---- */

enum write { PUT, DELETE, EVENT, PRUNE, FORGET, WRITES };

static const char *const sql[WRITES] = {
	[PUT] = "INSERT INTO box (id, doc) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET doc = ?2",
	[DELETE] = "DELETE FROM box WHERE id = ?1",
	/* Not of a box that was deleted just now. */
	[EVENT] =
		"INSERT OR REPLACE INTO event SELECT ?1, ?3, ?4, ?5, ?2 WHERE EXISTS (SELECT 1 FROM box WHERE id = ?1)",
	[PRUNE] = "DELETE FROM event WHERE id = ?1 AND seq <= ?3",
	[FORGET] = "DELETE FROM event WHERE id = ?1",
};

static const char schema[] =
	"PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
	"CREATE TABLE IF NOT EXISTS box (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc TEXT NOT NULL);"
	"CREATE TABLE IF NOT EXISTS event (id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,"
	" type TEXT NOT NULL, data TEXT, PRIMARY KEY (id, seq)) WITHOUT ROWID;"
	"DELETE FROM event WHERE id NOT IN (SELECT id FROM box);";

struct store_job {
	enum write what;
	char *id, *text, *type;
	int64_t seq, at_ms, keep;
	struct store_job *next;
	bool *done, *failed; /* of a caller who waits */
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *writes[WRITES];
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t work, written;
	struct store_job *first, **last;
	bool stop;
};

static int database_error(struct store *store, struct err *err)
{
	return err_set(err, ERR_INTERNAL, "the host's store: %s", lite.errmsg(store->db));
}

static bool run(struct store *store, enum write what, const struct store_job *job, int64_t seq)
{
	sqlite3_stmt *s = store->writes[what];
	lite.bind_text(s, 1, job->id, -1, SQLITE_STATIC);
	if (what == PUT || what == EVENT)
		lite.bind_text(s, 2, job->text, -1, SQLITE_STATIC);
	if (what == EVENT || what == PRUNE)
		lite.bind_int64(s, 3, seq);
	if (what == EVENT) {
		lite.bind_int64(s, 4, job->at_ms);
		lite.bind_text(s, 5, job->type, -1, SQLITE_STATIC);
	}
	bool ok = lite.step(s) == SQLITE_DONE;
	lite.reset(s);
	return ok;
}

static bool apply(struct store *store, const struct store_job *job)
{
	bool ok = run(store, job->what, job, job->seq);
	if (job->what == DELETE)
		ok = ok && run(store, FORGET, job, 0);
	if (job->what == EVENT && job->seq > job->keep)
		ok = ok && run(store, PRUNE, job, job->seq - job->keep);
	return ok;
}

static bool write_all(struct store *store, const struct store_job *jobs)
{
	if (lite.exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return false;
	bool ok = true;
	for (const struct store_job *job = jobs; job && ok; job = job->next)
		ok = apply(store, job);
	if (ok && lite.exec(store->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
		return true;
	log_error("the host's store: %s", lite.errmsg(store->db));
	lite.exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

static void finish_jobs(struct store *store, struct store_job *jobs, bool ok)
{
	pthread_mutex_lock(&store->lock);
	for (struct store_job *job = jobs, *next; job; job = next) {
		next = job->next;
		if (job->done) {
			*job->failed = !ok;
			*job->done = true;
		}
		free(job->id);
		free(job->text);
		free(job->type);
		free(job);
	}
	pthread_cond_broadcast(&store->written);
	pthread_mutex_unlock(&store->lock);
}

static void *write_jobs(void *arg)
{
	struct store *store = arg;
	for (;;) {
		pthread_mutex_lock(&store->lock);
		while (!store->first && !store->stop)
			pthread_cond_wait(&store->work, &store->lock);
		struct store_job *jobs = store->first;
		store->first = NULL;
		store->last = &store->first;
		pthread_mutex_unlock(&store->lock);
		if (!jobs)
			return NULL;
		finish_jobs(store, jobs, write_all(store, jobs));
	}
}

/* ---- the interface ---- */

struct store *store_open(const char *path, struct err *err)
{
	if (library_load(&library, err) < 0)
		return NULL;
	struct store *store = xcalloc(1, sizeof *store);
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->work, NULL);
	pthread_cond_init(&store->written, NULL);
	store->last = &store->first;
	/* Tokens are in it. Closed again before SQLite opens it: its locks would go with this. */
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	own_close(&fd);
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
	int result = lite.open_v2(path, &store->db, flags, NULL) == SQLITE_OK &&
				     lite.exec(store->db, schema, NULL, NULL, NULL) == SQLITE_OK
			     ? 0
			     : database_error(store, err);
	for (int i = 0; i < WRITES && result == 0; i++)
		if (lite.prepare_v2(store->db, sql[i], -1, &store->writes[i], NULL) != SQLITE_OK)
			result = database_error(store, err);
	if (result == 0 && thread_start_joinable(&store->thread, write_jobs, store) == 0) {
		store->running = true;
		return store;
	}
	store_close(store);
	return NULL;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	pthread_mutex_lock(&store->lock);
	store->stop = true;
	pthread_cond_signal(&store->work);
	pthread_mutex_unlock(&store->lock);
	if (store->running)
		pthread_join(store->thread, NULL);
	for (int i = 0; i < WRITES; i++)
		lite.finalize(store->writes[i]);
	lite.close(store->db);
	pthread_cond_destroy(&store->work);
	pthread_cond_destroy(&store->written);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

static void add(struct store *store, struct store_job *job)
{
	*store->last = job;
	store->last = &job->next;
	pthread_cond_signal(&store->work);
}

static int write_now(struct store *store, enum write what, const char *id, const char *text,
		     struct err *err)
{
	bool done = false, failed = false;
	struct store_job *job = xcalloc(1, sizeof *job);
	*job = (struct store_job){ .what = what,
				   .id = xstrdup(id),
				   .text = text ? xstrdup(text) : NULL,
				   .done = &done,
				   .failed = &failed };
	pthread_mutex_lock(&store->lock);
	add(store, job);
	while (!done)
		pthread_cond_wait(&store->written, &store->lock);
	pthread_mutex_unlock(&store->lock);
	return failed ? err_set(err, ERR_INTERNAL, "the host cannot write its store") : 0;
}

int store_put(struct store *store, const char *id, const char *doc, struct err *err)
{
	return write_now(store, PUT, id, doc, err);
}

int store_delete(struct store *store, const char *id, struct err *err)
{
	return write_now(store, DELETE, id, NULL, err);
}

void store_event(struct store *store, const char *id, int64_t seq, int64_t at_ms, const char *type,
		 const char *data, int64_t keep)
{
	struct store_job *job = xcalloc(1, sizeof *job);
	*job = (struct store_job){ .what = EVENT,
				   .id = xstrdup(id),
				   .text = data ? xstrdup(data) : NULL,
				   .type = xstrdup(type),
				   .seq = seq,
				   .at_ms = at_ms,
				   .keep = keep };
	pthread_mutex_lock(&store->lock);
	add(store, job);
	pthread_mutex_unlock(&store->lock);
}

static const char *text_of(sqlite3_stmt *s, int column)
{
	return (const char *)lite.column_text(s, column);
}

static int take_box(const struct store_reader *reader, sqlite3_stmt *s, struct err *err)
{
	return reader->box(reader->arg, text_of(s, 0), text_of(s, 1), err);
}

static int take_event(const struct store_reader *reader, sqlite3_stmt *s, struct err *err)
{
	(void)err;
	reader->event(reader->arg, text_of(s, 0), lite.column_int64(s, 1), lite.column_int64(s, 2),
		      text_of(s, 3), text_of(s, 4));
	return 0;
}

/* All rows or none: a box whose row was not read would be taken for one that is no more. */
static int each_row(struct store *store, const char *query,
		    int (*take)(const struct store_reader *reader, sqlite3_stmt *s,
				struct err *err),
		    const struct store_reader *reader, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int result = 0, got = lite.prepare_v2(store->db, query, -1, &s, NULL);
	if (got == SQLITE_OK)
		while ((got = lite.step(s)) == SQLITE_ROW && result == 0)
			result = take(reader, s, err);
	if (result == 0 && got != SQLITE_DONE)
		result = err_set(err, ERR_INTERNAL,
				 "the host's store cannot be read: %s; no sandbox was touched: "
				 "restore 'store.db' from a copy, or mend it, and start again",
				 lite.errmsg(store->db));
	lite.finalize(s);
	return result;
}

int store_load(struct store *store, const struct store_reader *reader, struct err *err)
{
	if (each_row(store, "SELECT id, doc FROM box ORDER BY n", take_box, reader, err) < 0)
		return -1;
	return each_row(store, "SELECT id, seq, at, type, data FROM event ORDER BY at, id, seq",
			take_event, reader, err);
}
