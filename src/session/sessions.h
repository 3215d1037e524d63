/* sessions.h - the sessions of one kind, by id: found or made, expired when idle, ended together.
 *
 * A session of any kind begins with a struct session. A caller releases the session that it found; a
 * closed session lives on until its last user has released it. The table's lock is taken before a
 * session's, never after it. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct arena;
struct err;

enum { SESSION_ID_MAX = 64 }; /* characters */

/* The first member of every session. */
struct session {
	struct sessions *table;
	struct session *next;             /* of the table */
	_Atomic int refs;                 /* of the table, of users, of lists; see sessions_ref() */
	_Atomic int users;                /* requests that have found it and not released it yet */
	_Atomic bool named;               /* a client knows it by its id: it makes room last */
	_Atomic int64_t used_ms, idle_ms; /* see sessions_touch() and struct sessions */
	char id[SESSION_ID_MAX * 4 + 1];
	struct timespec created;
	pthread_mutex_t lock; /* of what follows, and of what the kind adds */
	struct timespec used;
	bool closed; /* it is ending: nothing new may begin in it */
};

/* What a kind of session can do. None of these may use the table. */
struct sessions {
	const char *kind; /* "bash", in ids and messages */
	size_t size;      /* of the struct that begins with a struct session */
	bool secret;      /* whoever knows an id may use the session: none is told */
	/* Whether it must not expire now; NULL: while it has users. */
	bool (*busy)(void *session);
	void (*end)(void *session);  /* ends all that runs in it, for good */
	void (*done)(void *session); /* frees what it holds */
	pthread_mutex_t lock;
	struct session *first; /* the newest */
	size_t count, most;
	int64_t idle_ms; /* how long one may be idle; its own idle_ms may be less */
	uint64_t next_id;
};

/* Sets how many there may be and how long each may be idle. Called before the first is opened. */
void sessions_limit(struct sessions *sessions, int64_t most, int64_t idle_ms);

/* The session with an id, to be released; NULL with err (which may be NULL) when there is none. */
void *sessions_find(struct sessions *sessions, const char *id, struct err *err);

/* The same; but if there is none, or id is NULL or empty, a new one is made, and an idle one ended if
 * the table is full. fill() sets the members that its kind adds, which are zero. It runs under the
 * table's lock, so it starts nothing and waits for nothing. */
void *sessions_open(struct sessions *sessions, const char *id,
		    void (*fill)(void *session, void *arg), void *arg, struct err *err);

/* One more user of a session; and one less: NULL is fine. */
void sessions_use(struct session *session);
void sessions_release(void *session);

static inline void sessions_auto_release(void *at)
{
	sessions_release(*(void **)at);
}
#define auto_session __attribute__((cleanup(sessions_auto_release)))

/* A reference that makes it no busier: for what may outlive the table's, and requests. */
void sessions_ref(struct session *session);
void sessions_unref(struct session *session);

/* Notes that it is used now, of awake_ms(). With its lock. */
void sessions_touch(struct session *session);

/* Whether an id has the form of those that the table gives to sessions opened without one. */
bool sessions_gave(const struct sessions *sessions, const char *id);

/* Ends the unnamed session that has been idle for longest: to make room of another kind. */
bool sessions_evict(struct sessions *sessions);

/* Ends a session, or all: how many. */
int sessions_close(struct sessions *sessions, const char *id, struct err *err);
size_t sessions_close_all(struct sessions *sessions);

/* Ends sessions that were idle for too long. */
void sessions_expire(struct sessions *sessions);

/* All of them, the newest first; they live as long as the arena. Being listed does not make a session
 * busy. */
void **sessions_list(struct sessions *sessions, struct arena *arena, size_t *ret_count);
size_t sessions_count(struct sessions *sessions);
