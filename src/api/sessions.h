/* sessions.h - the sessions of one kind, by id: found or made, expired when idle, ended together. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct err;

/* What a kind of session can do. None of these may use the table. */
struct sessions_ops {
	void (*ref)(void *session);
	void (*unref)(void *session);
	bool (*busy)(void *session);       /* something runs in it */
	int64_t (*used_ms)(void *session); /* when it was last used, of awake_ms() */
	void (*end)(void *session);        /* ends all that runs in it, for good */
	bool (*unnamed)(void *session);    /* its id is nobody's choice; NULL: none is so */
};

struct sessions {
	const char *kind; /* "bash", in ids and messages */
	const struct sessions_ops *ops;
	pthread_mutex_t lock;
	struct session_slot *first;
	size_t count;
	uint64_t next_id;
};

#define SESSIONS(name, table)                                                     \
	{                                                                         \
		.kind = (name), .ops = (table), .lock = PTHREAD_MUTEX_INITIALIZER \
	}

enum { SESSION_ID_MAX = 64 };

/* The session with an id, with a reference; NULL with err (which may be NULL) when there is none. */
void *sessions_find(struct sessions *sessions, const char *id, struct err *err);

/* The same; but where there is none, or id is NULL or empty, a new one is made, after idle ones had
 * to make room. make() gets the id and returns a session with one reference, the table's. */
typedef void *sessions_make(const char *id, void *arg, struct err *err);
void *sessions_open(struct sessions *sessions, const struct config *config, const char *id,
		    sessions_make *make, void *arg, struct err *err);

/* Whether an id is such as the table itself gives to those that come without one. */
bool sessions_gave(const struct sessions *sessions, const char *id);

/* Ends the unnamed session that has been idle for longest: to make room of another kind. */
bool sessions_evict(struct sessions *sessions);

/* Ends a session, or all: how many. */
int sessions_close(struct sessions *sessions, const char *id, struct err *err);
size_t sessions_close_all(struct sessions *sessions);

/* Ends those that were idle for too long. */
void sessions_expire(struct sessions *sessions, const struct config *config);

/* Calls fn for each, the newest first, under the table's lock. */
void sessions_each(struct sessions *sessions, void (*fn)(void *session, void *arg), void *arg);
size_t sessions_count(struct sessions *sessions);
