/* boxes.h - the boxes that this host knows, by id. One lock; what the gateway needs is read under it
 * and never waits for a box. Only the holder of a box's turn (boxes_begin) changes what it is. */
#pragma once
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rate_limit.h"
#include "box/box.h"
#include "host/address.h"

struct auth;
struct err;
struct waiter;

enum box_state { BOX_CREATING, BOX_RUNNING, BOX_PAUSED, BOX_STOPPED, BOX_DELETED };
extern const char *const box_state_names[]; /* ends with NULL */

struct box_event {
	int64_t seq, at_ms; /* of the wall clock */
	char type[16];
	char *data; /* a JSON object */
};
enum { BOX_EVENTS_MAX = 500, BOXES_EVENTS_MAX = 1000, BOXES_SLOTS = 1024 };

enum { BOX_LEFT, BOX_WANTED, BOX_COMING };

struct box {
	char id[BOX_ID_MAX + 1];
	char token[48];    /* what callers send; "": open */
	char secret[48];   /* what the host sends to the box */
	struct auth *auth; /* who may call */
	uint32_t uid_base;
	int64_t created_ms;          /* of the wall clock, like all that is stored */
	_Atomic int64_t used_ms;     /* of clock_ms(): the last request */
	_Atomic int active, streams; /* requests being answered; connections to its server */
	_Atomic uint64_t requests;
	_Atomic bool acting;        /* the keeper has something done to it */
	_Atomic int waking;         /* BOX_…: a request wants it back */
	_Atomic bool parted;        /* its shutdown hooks were run: see shutdown.h */
	_Atomic int64_t refused_ms; /* of clock_ms(): when wrong credentials were last told of */
	/* Of its log, for keeper_drain() alone: how many bytes may be written, as of when; how many
	 * were not, since that was last told. */
	int64_t log_room, log_ms, log_told_ms;
	_Atomic int64_t log_dropped;
	struct rate denied;          /* names that its server reports; likewise */
	_Atomic uint64_t group;      /* of its commands, while denials.c watches it; 0 */
	struct rate_limit *attempts; /* for denials_report() alone; NULL: there were none */

	/* Under the table's lock. */
	struct box *next, *next_id, *next_token; /* of all; of the same slot of each index */
	size_t refs;
	bool busy; /* somebody has its turn */
	enum box_state state;
	json_t *spec; /* what was asked for, never changed in place */
	struct box_proc proc;
	int64_t deadline, idle_ms; /* see deadline.h; milliseconds, 0: never */
	bool auto_resume;
	int pidfd, log_fd; /* of a running box; -1 */
	int64_t oom_kills; /* reported so far */
	int64_t denied_at; /* how far the keeper has read what its network denied */
	struct box_event events[BOX_EVENTS_MAX]; /* a ring: seq % BOX_EVENTS_MAX */
	int64_t next_seq;
	struct waiter *watchers; /* of its events */
};

struct boxes {
	pthread_mutex_t lock;
	/* What happened to all of them, also to those that are gone: a ring by its own numbers. */
	struct boxes_event {
		char id[BOX_ID_MAX + 1];
		struct box_event event;
	} * events;
	int64_t next_seq;
	struct waiter *watchers; /* of these */
	pthread_cond_t turn;
	struct box *first;
	struct box *by_id[BOXES_SLOTS], *by_token[BOXES_SLOTS];
	size_t count;
	_Atomic uint64_t changes;   /* of any box's state */
	void (*changed)(void *arg); /* called without the lock after each */
	void *arg;
};

void boxes_init(struct boxes *boxes);
void boxes_done(struct boxes *boxes);

/* A new box, nobody's but the caller's until it is added. */
struct box *boxes_new(const char *id);
void boxes_free(struct box *box); /* one that was not */

/* Puts it into the table, busy and with a reference of the caller's. On failure it is freed:
 * ERR_CONFLICT if the id is taken. */
int boxes_add(struct boxes *boxes, struct box *box, struct err *err);
void boxes_drop(struct boxes *boxes, struct box *box); /* takes it out of the table */

struct box *boxes_get(struct boxes *boxes, const char *id); /* NULL if there is none */
void boxes_put(struct boxes *boxes, struct box *box);       /* NULL is fine */

/* Whether a text is the token of one of them. */
bool boxes_have_token(struct boxes *boxes, const char *text, size_t len);

/* Waits for the box's turn: until boxes_end() nobody else changes it. NULL with ERR_NOT_FOUND. */
struct box *boxes_begin(struct boxes *boxes, const char *id, struct err *err);
void boxes_end(struct boxes *boxes, struct box *box); /* gives the reference back too */

/* A copy of what must be known of its processes. */
struct box_proc boxes_proc(struct boxes *boxes, const struct box *box);
enum box_state boxes_state(struct boxes *boxes, const struct box *box);
void boxes_set_state(struct boxes *boxes, struct box *box, enum box_state state);

/* All boxes, each with a reference, in the order of their creation; free() the array. */
struct box **boxes_list(struct boxes *boxes, size_t *ret_count);

/* Adds to the history of a box and to that of all, and wakes who watches; data (may be NULL) is taken over.
 * Returns its number; -1: it was left out, as one of too many that were denied. */
int64_t boxes_event(struct boxes *boxes, struct box *box, int64_t at_ms, const char *type,
		    char *data);
