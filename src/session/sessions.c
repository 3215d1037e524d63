#include "session/sessions.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/awake.h"
#include "base/err.h"
#include "base/own.h"
#include "journal/journal.h"

void sessions_limit(struct sessions *sessions, int64_t most, int64_t idle_ms)
{
	sessions->most = (size_t)most;
	sessions->idle_ms = idle_ms;
}

/* ---- one session ---- */

void sessions_ref(struct session *session)
{
	atomic_fetch_add(&session->refs, 1);
}

void sessions_unref(struct session *session)
{
	if (atomic_fetch_sub(&session->refs, 1) > 1)
		return;
	session->table->done(session);
	pthread_mutex_destroy(&session->lock);
	free(session);
}

void sessions_use(struct session *session)
{
	sessions_ref(session);
	atomic_fetch_add(&session->users, 1);
}

void sessions_release(void *session)
{
	struct session *base = session;
	if (!base)
		return;
	atomic_fetch_sub(&base->users, 1);
	sessions_unref(base);
}

void sessions_touch(struct session *session)
{
	session->used_ms = awake_ms();
	clock_gettime(CLOCK_REALTIME, &session->used);
}

/* Takes over the table's reference. */
static void finish(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	session->closed = true;
	pthread_mutex_unlock(&session->lock);
	session->table->end(session);
	sessions_unref(session);
}

static bool is_busy(struct session *session)
{
	const struct sessions *table = session->table;
	return table->busy ? table->busy(session) : atomic_load(&session->users) > 0;
}

/* When it will have been idle for too long. */
static int64_t expires_ms(const struct session *session)
{
	int64_t idle = session->idle_ms, most = session->table->idle_ms;
	return session->used_ms + (idle < most ? idle : most);
}

/* ---- the table; with its lock ---- */

/* The place of the pointer to an id's session, or of the NULL at the end. */
static struct session **locate(struct sessions *sessions, const char *id)
{
	struct session **at = &sessions->first;
	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	return at;
}

static void record(enum journal_kind kind, const struct session *session)
{
	const struct sessions *table = session->table;
	journal_add(kind,
		    &(struct journal_session){ table->kind, table->secret ? NULL : session->id });
}

/* Takes a session out; the table's reference becomes the caller's. */
static struct session *unlist(struct sessions *sessions, struct session **at)
{
	struct session *session = *at;
	record(JOURNAL_SESSION_CLOSED, session);
	*at = session->next;
	sessions->count--;
	return session;
}

/* The idle one that expires first, of all or of the unnamed ones. */
static struct session **find_idle(struct sessions *sessions, bool unnamed, int64_t *ret_expires)
{
	struct session **found = NULL;
	*ret_expires = INT64_MAX;
	for (struct session **at = &sessions->first; *at; at = &(*at)->next) {
		int64_t expires = expires_ms(*at);
		if (expires < *ret_expires && !(unnamed && (*at)->named) && !is_busy(*at)) {
			found = at;
			*ret_expires = expires;
		}
	}
	return found;
}

/* One that has been idle for too long; else, if room is needed, an idle one, unnamed if possible. */
static struct session *take_expired(struct sessions *sessions, bool make_room)
{
	int64_t expires;
	struct session **found = find_idle(sessions, false, &expires);
	bool expired = found && awake_ms() >= expires;
	bool full = make_room && sessions->count >= sessions->most;
	if (!expired && full) {
		struct session **other = find_idle(sessions, true, &expires);
		found = other ? other : found;
	}
	return found && (expired || full) ? unlist(sessions, found) : NULL;
}

static void set_id(struct session *session, const char *id)
{
	struct sessions *sessions = session->table;
	if (id && *id)
		snprintf(session->id, sizeof session->id, "%s", id);
	else
		do /* a client may have chosen the same */
			snprintf(session->id, sizeof session->id, "%s-%llx-%llx", sessions->kind,
				 (unsigned long long)time(NULL),
				 (unsigned long long)sessions->next_id++);
		while (*locate(sessions, session->id));
}

static struct session *add(struct sessions *sessions, const char *id,
			   void (*fill)(void *session, void *arg), void *arg, struct err *err)
{
	if (sessions->count >= sessions->most) {
		err_set(err, ERR_LIMIT,
			"all %zu %s sessions are busy: end one, or raise --max-sessions",
			sessions->most, sessions->kind);
		return NULL;
	}
	struct session *session = xcalloc(1, sessions->size);
	session->table = sessions;
	session->refs = 1;
	session->idle_ms = sessions->idle_ms;
	pthread_mutex_init(&session->lock, NULL);
	set_id(session, id);
	sessions_touch(session);
	session->created = session->used;
	fill(session, arg);
	session->next = sessions->first;
	sessions->first = session;
	sessions->count++;
	record(JOURNAL_SESSION_OPENED, session);
	return session;
}

/* ---- finding, making, ending ---- */

static int unknown(const struct sessions *sessions, const char *id, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, "there is no %s session '%.80s'", sessions->kind, id);
}

void *sessions_find(struct sessions *sessions, const char *id, struct err *err)
{
	pthread_mutex_lock(&sessions->lock);
	struct session *session = *locate(sessions, id);
	if (session)
		sessions_use(session);
	pthread_mutex_unlock(&sessions->lock);
	if (!session)
		unknown(sessions, id, err);
	return session;
}

void *sessions_open(struct sessions *sessions, const char *id,
		    void (*fill)(void *session, void *arg), void *arg, struct err *err)
{
	struct session *expired = NULL;
	pthread_mutex_lock(&sessions->lock);
	struct session *session = id && *id ? *locate(sessions, id) : NULL;
	if (!session) { /* under one lock, so that no other thread takes the room */
		expired = take_expired(sessions, true);
		session = add(sessions, id, fill, arg, err);
	}
	if (session)
		sessions_use(session);
	pthread_mutex_unlock(&sessions->lock);
	if (expired) {
		finish(expired);
		sessions_expire(sessions);
	}
	return session;
}

bool sessions_gave(const struct sessions *sessions, const char *id)
{
	size_t len = strlen(sessions->kind);
	const char *at = id + len;
	if (strncmp(id, sessions->kind, len) != 0)
		return false;
	for (int i = 0; i < 2; i++) {
		size_t digits = *at == '-' ? strspn(at + 1, "0123456789abcdef") : 0;
		if (!digits)
			return false;
		at += 1 + digits;
	}
	return !*at;
}

bool sessions_evict(struct sessions *sessions)
{
	int64_t expires;
	pthread_mutex_lock(&sessions->lock);
	struct session **found = find_idle(sessions, true, &expires);
	struct session *session = found ? unlist(sessions, found) : NULL;
	pthread_mutex_unlock(&sessions->lock);
	if (session)
		finish(session);
	return session;
}

void sessions_expire(struct sessions *sessions)
{
	for (;;) {
		pthread_mutex_lock(&sessions->lock);
		struct session *session = take_expired(sessions, false);
		pthread_mutex_unlock(&sessions->lock);
		if (!session)
			return;
		finish(session);
	}
}

int sessions_close(struct sessions *sessions, const char *id, struct err *err)
{
	pthread_mutex_lock(&sessions->lock);
	struct session **at = locate(sessions, id);
	struct session *session = *at ? unlist(sessions, at) : NULL;
	pthread_mutex_unlock(&sessions->lock);
	if (!session)
		return unknown(sessions, id, err);
	finish(session);
	return 0;
}

size_t sessions_close_all(struct sessions *sessions)
{
	for (size_t count = 0;; count++) {
		pthread_mutex_lock(&sessions->lock);
		struct session *session = sessions->first ? unlist(sessions, &sessions->first)
							  : NULL;
		pthread_mutex_unlock(&sessions->lock);
		if (!session)
			return count;
		finish(session);
	}
}

/* ---- all of them ---- */

static void unref_all(void *arg)
{
	for (void **at = arg; *at; at++)
		sessions_unref(*at);
}

void **sessions_list(struct sessions *sessions, struct arena *arena, size_t *ret_count)
{
	size_t count = 0;
	pthread_mutex_lock(&sessions->lock);
	void **all = arena_alloc(arena, (sessions->count + 1) * sizeof *all);
	for (struct session *at = sessions->first; at; at = at->next) {
		sessions_ref(at);
		all[count++] = at;
	}
	pthread_mutex_unlock(&sessions->lock);
	all[count] = NULL;
	arena_defer(arena, unref_all, all);
	*ret_count = count;
	return all;
}

size_t sessions_count(struct sessions *sessions)
{
	pthread_mutex_lock(&sessions->lock);
	size_t count = sessions->count;
	pthread_mutex_unlock(&sessions->lock);
	return count;
}
