#include "api/sessions.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/awake.h"
#include "base/config.h"
#include "base/err.h"
#include "base/own.h"

struct session_slot {
	struct session_slot *next;
	void *session;
	char id[SESSION_ID_MAX * 4 + 1];
};

/* With the lock: the place of the pointer to an id's slot, or of the NULL at the end. */
static struct session_slot **locate(struct sessions *sessions, const char *id)
{
	struct session_slot **at = &sessions->first;
	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	return at;
}

/* With the lock: takes a slot out; the table's reference becomes the caller's. */
static void *unlist(struct sessions *sessions, struct session_slot **at)
{
	struct session_slot *slot = *at;
	void *session = slot->session;
	*at = slot->next;
	sessions->count--;
	free(slot);
	return session;
}

static void finish(struct sessions *sessions, void *session)
{
	sessions->ops->end(session);
	sessions->ops->unref(session);
}

void *sessions_find(struct sessions *sessions, const char *id, struct err *err)
{
	pthread_mutex_lock(&sessions->lock);
	struct session_slot *slot = *locate(sessions, id);
	void *session = slot ? slot->session : NULL;
	if (session)
		sessions->ops->ref(session);
	pthread_mutex_unlock(&sessions->lock);
	if (!session)
		err_set(err, ERR_NOT_FOUND, "there is no %s session '%.80s'", sessions->kind, id);
	return session;
}

/* With the lock: the one that has been idle for longest, of all or of those nobody has named. */
static struct session_slot **find_idle(struct sessions *sessions, bool unnamed, int64_t *ret_used)
{
	const struct sessions_ops *ops = sessions->ops;
	struct session_slot **oldest = NULL;
	*ret_used = INT64_MAX;
	for (struct session_slot **at = &sessions->first; *at; at = &(*at)->next) {
		void *session = (*at)->session;
		int64_t used = ops->used_ms(session);
		if (used < *ret_used && !ops->busy(session) &&
		    (!unnamed || (ops->unnamed && ops->unnamed(session)))) {
			oldest = at;
			*ret_used = used;
		}
	}
	return oldest;
}

/* One that has been idle for too long; with the table full one that is idle, unnamed if there is. */
static void *take_expired(struct sessions *sessions, const struct config *config, bool make_room)
{
	int64_t used;
	struct session_slot **oldest = find_idle(sessions, false, &used);
	bool expired = oldest && awake_ms() - used >= config->session_ms;
	bool full = make_room && sessions->count >= (size_t)config->max_sessions;
	if (!expired && full) {
		struct session_slot **other = find_idle(sessions, true, &used);
		oldest = other ? other : oldest;
	}
	return oldest && (expired || full) ? unlist(sessions, oldest) : NULL;
}

bool sessions_evict(struct sessions *sessions)
{
	int64_t used;
	pthread_mutex_lock(&sessions->lock);
	struct session_slot **oldest = find_idle(sessions, true, &used);
	void *session = oldest ? unlist(sessions, oldest) : NULL;
	pthread_mutex_unlock(&sessions->lock);
	if (session)
		finish(sessions, session);
	return session;
}

void sessions_expire(struct sessions *sessions, const struct config *config)
{
	for (;;) {
		pthread_mutex_lock(&sessions->lock);
		void *session = take_expired(sessions, config, false);
		pthread_mutex_unlock(&sessions->lock);
		if (!session)
			return;
		finish(sessions, session);
	}
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

/* With the lock. */
static void *add(struct sessions *sessions, const struct config *config, const char *id,
		 sessions_make *make, void *arg, struct err *err)
{
	if (sessions->count >= (size_t)config->max_sessions) {
		err_set(err, ERR_LIMIT,
			"all %lld %s sessions are busy: end one, or raise --max-sessions",
			(long long)config->max_sessions, sessions->kind);
		return NULL;
	}
	struct session_slot *slot = xcalloc(1, sizeof *slot);
	if (id && *id)
		snprintf(slot->id, sizeof slot->id, "%s", id);
	else
		do /* a client may have chosen the same */
			snprintf(slot->id, sizeof slot->id, "%s-%llx-%llx", sessions->kind,
				 (unsigned long long)time(NULL),
				 (unsigned long long)sessions->next_id++);
		while (*locate(sessions, slot->id));
	slot->session = make(slot->id, arg, err);
	if (!slot->session) {
		free(slot);
		return NULL;
	}
	slot->next = sessions->first;
	sessions->first = slot;
	sessions->count++;
	sessions->ops->ref(slot->session);
	return slot->session;
}

void *sessions_open(struct sessions *sessions, const struct config *config, const char *id,
		    sessions_make *make, void *arg, struct err *err)
{
	void *session, *expired = NULL;
	pthread_mutex_lock(&sessions->lock);
	struct session_slot *slot = id && *id ? *locate(sessions, id) : NULL;
	if (slot) {
		session = slot->session;
		sessions->ops->ref(session);
	} else { /* under one lock: nobody else takes the room that an idle one leaves */
		expired = take_expired(sessions, config, true);
		session = add(sessions, config, id, make, arg, err);
	}
	pthread_mutex_unlock(&sessions->lock);
	if (expired) {
		finish(sessions, expired);
		sessions_expire(sessions, config);
	}
	return session;
}

int sessions_close(struct sessions *sessions, const char *id, struct err *err)
{
	pthread_mutex_lock(&sessions->lock);
	struct session_slot **at = locate(sessions, id);
	void *session = *at ? unlist(sessions, at) : NULL;
	pthread_mutex_unlock(&sessions->lock);
	if (!session)
		return err_set(err, ERR_NOT_FOUND, "there is no %s session '%.80s'", sessions->kind,
			       id);
	finish(sessions, session);
	return 0;
}

size_t sessions_close_all(struct sessions *sessions)
{
	for (size_t count = 0;; count++) {
		pthread_mutex_lock(&sessions->lock);
		void *session = sessions->first ? unlist(sessions, &sessions->first) : NULL;
		pthread_mutex_unlock(&sessions->lock);
		if (!session)
			return count;
		finish(sessions, session);
	}
}

void sessions_each(struct sessions *sessions, void (*fn)(void *session, void *arg), void *arg)
{
	pthread_mutex_lock(&sessions->lock);
	for (struct session_slot *slot = sessions->first; slot; slot = slot->next)
		fn(slot->session, arg);
	pthread_mutex_unlock(&sessions->lock);
}

size_t sessions_count(struct sessions *sessions)
{
	pthread_mutex_lock(&sessions->lock);
	size_t count = sessions->count;
	pthread_mutex_unlock(&sessions->lock);
	return count;
}
