#include "host/boxes.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/wait.h"
#include "host/history.h"
#include "net/auth.h"

enum { CROWDED_MS = 10 * 60 * 1000 };

const char *const box_state_names[] = {
	"creating", "running", "paused", "stopped", "deleted", NULL
};

void boxes_init(struct boxes *boxes)
{
	*boxes = (struct boxes){ .next_seq = 1 };
	boxes->events = xcalloc(BOXES_EVENTS_MAX, sizeof *boxes->events);
	pthread_mutex_init(&boxes->lock, NULL);
	pthread_cond_init(&boxes->turn, NULL);
}

void boxes_free(struct box *box)
{
	auth_free(box->auth);
	json_decref(box->spec);
	for (size_t i = 0; i < BOX_EVENTS_MAX; i++)
		free(box->events[i].data);
	own_close(&box->pidfd);
	own_close(&box->log_fd);
	free(box->attempts);
	free(box);
}

void boxes_done(struct boxes *boxes)
{
	while (boxes->first) {
		struct box *box = boxes->first;
		boxes->first = box->next;
		boxes_free(box);
	}
	for (size_t i = 0; i < BOXES_EVENTS_MAX; i++)
		free(boxes->events[i].event.data);
	free(boxes->events);
	pthread_cond_destroy(&boxes->turn);
	pthread_mutex_destroy(&boxes->lock);
}

static size_t slot_of(const char *text, size_t len)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 16777619u;
	return h % BOXES_SLOTS;
}

static struct box **id_slot(struct boxes *boxes, const char *id)
{
	return &boxes->by_id[slot_of(id, strlen(id))];
}

static struct box **token_slot(struct boxes *boxes, const char *token)
{
	return &boxes->by_token[slot_of(token, strlen(token))];
}

static struct box *find(struct boxes *boxes, const char *id)
{
	struct box *box = *id_slot(boxes, id);
	while (box && strcmp(box->id, id) != 0)
		box = box->next_id;
	return box;
}

static void index_box(struct boxes *boxes, struct box *box)
{
	struct box **ids = id_slot(boxes, box->id), **tokens = token_slot(boxes, box->token);
	box->next_id = *ids;
	*ids = box;
	box->next_token = *tokens;
	*tokens = box;
}

static void unindex_box(struct boxes *boxes, struct box *box)
{
	struct box **id = id_slot(boxes, box->id), **token = token_slot(boxes, box->token);
	while (*id != box)
		id = &(*id)->next_id;
	*id = box->next_id;
	while (*token != box)
		token = &(*token)->next_token;
	*token = box->next_token;
}

bool boxes_have_token(struct boxes *boxes, const char *text, size_t len)
{
	bool found = false;
	if (!len || len >= sizeof boxes->first->token)
		return false;
	pthread_mutex_lock(&boxes->lock);
	for (struct box *box = boxes->by_token[slot_of(text, len)]; box; box = box->next_token)
		found |= strlen(box->token) == len && CRYPTO_memcmp(box->token, text, len) == 0;
	pthread_mutex_unlock(&boxes->lock);
	return found;
}

struct box *boxes_new(const char *id)
{
	struct box *box = xcalloc(1, sizeof *box);
	snprintf(box->id, sizeof box->id, "%s", id);
	box->refs = 2; /* the table's and the caller's */
	box->busy = true;
	box->pidfd = box->log_fd = -1;
	box->next_seq = 1;
	return box;
}

int boxes_add(struct boxes *boxes, struct box *box, struct err *err)
{
	pthread_mutex_lock(&boxes->lock);
	bool taken = find(boxes, box->id);
	if (!taken) {
		struct box **at = &boxes->first;
		while (*at)
			at = &(*at)->next;
		*at = box;
		index_box(boxes, box);
		boxes->count++;
	}
	pthread_mutex_unlock(&boxes->lock);
	if (!taken)
		return 0;
	err_set(err, ERR_CONFLICT, "there is a sandbox '%s' already", box->id);
	boxes_free(box);
	return -1;
}

static void put_locked(struct box *box)
{
	if (--box->refs == 0)
		boxes_free(box);
}

void boxes_drop(struct boxes *boxes, struct box *box)
{
	pthread_mutex_lock(&boxes->lock);
	struct box **at = &boxes->first;
	while (*at && *at != box)
		at = &(*at)->next;
	if (*at) {
		*at = box->next;
		unindex_box(boxes, box);
		boxes->count--;
		box->state = BOX_DELETED;
		waiter_wake(box->watchers);
		put_locked(box);
	}
	pthread_mutex_unlock(&boxes->lock);
}

struct box *boxes_get(struct boxes *boxes, const char *id)
{
	pthread_mutex_lock(&boxes->lock);
	struct box *box = find(boxes, id);
	if (box)
		box->refs++;
	pthread_mutex_unlock(&boxes->lock);
	return box;
}

void boxes_put(struct boxes *boxes, struct box *box)
{
	if (!box)
		return;
	pthread_mutex_lock(&boxes->lock);
	put_locked(box);
	pthread_mutex_unlock(&boxes->lock);
}

struct box *boxes_begin(struct boxes *boxes, const char *id, struct err *err)
{
	pthread_mutex_lock(&boxes->lock);
	struct box *box;
	while ((box = find(boxes, id)) && box->busy)
		pthread_cond_wait(&boxes->turn, &boxes->lock);
	if (box) {
		box->busy = true;
		box->refs++;
	}
	pthread_mutex_unlock(&boxes->lock);
	if (!box)
		err_set(err, ERR_NOT_FOUND, "there is no sandbox '%.60s'", id);
	return box;
}

void boxes_end(struct boxes *boxes, struct box *box)
{
	pthread_mutex_lock(&boxes->lock);
	box->busy = false;
	pthread_cond_broadcast(&boxes->turn);
	put_locked(box);
	pthread_mutex_unlock(&boxes->lock);
}

struct box_proc boxes_proc(struct boxes *boxes, const struct box *box)
{
	pthread_mutex_lock(&boxes->lock);
	struct box_proc proc = box->proc;
	pthread_mutex_unlock(&boxes->lock);
	return proc;
}

enum box_state boxes_state(struct boxes *boxes, const struct box *box)
{
	pthread_mutex_lock(&boxes->lock);
	enum box_state state = box->state;
	pthread_mutex_unlock(&boxes->lock);
	return state;
}

void boxes_set_state(struct boxes *boxes, struct box *box, enum box_state state)
{
	pthread_mutex_lock(&boxes->lock);
	box->state = state;
	pthread_mutex_unlock(&boxes->lock);
	boxes->changes++;
	if (boxes->changed)
		boxes->changed(boxes->arg);
}

struct box **boxes_list(struct boxes *boxes, size_t *ret_count)
{
	pthread_mutex_lock(&boxes->lock);
	struct box **list = xcalloc(boxes->count + 1, sizeof *list);
	size_t count = 0;
	for (struct box *box = boxes->first; box; box = box->next) {
		box->refs++;
		list[count++] = box;
	}
	pthread_mutex_unlock(&boxes->lock);
	*ret_count = count;
	return list;
}

/* data is taken over. */
static void note(struct box_event *event, int64_t seq, int64_t at_ms, const char *type, char *data)
{
	free(event->data);
	*event = (struct box_event){ .seq = seq, .at_ms = at_ms, .data = data };
	strncpy(event->type, type, sizeof event->type - 1);
}

/* What is denied is caused from inside a box, or by somebody without a key, as often as they like. It gets
 * a quarter of a ring; beyond that one in ten minutes, so that it does not push out the rest. */
struct boxes_crowd {
	int count;
	int64_t last_ms;
};

static void crowd_add(struct boxes_crowd *crowd, const struct box_event *event)
{
	if (strcmp(event->type, history_names[HISTORY_DENIED]) != 0)
		return;
	crowd->count++;
	if (event->at_ms > crowd->last_ms)
		crowd->last_ms = event->at_ms;
}

static bool is_crowded(const struct boxes_crowd *crowd, int size, int64_t at_ms)
{
	int64_t since = at_ms - crowd->last_ms;
	return crowd->count >= size / 4 && since >= 0 && since < CROWDED_MS;
}

static bool crowds_box(const struct box *box, int64_t at_ms)
{
	struct boxes_crowd crowd = { 0 };
	for (size_t i = 0; i < BOX_EVENTS_MAX; i++)
		crowd_add(&crowd, &box->events[i]);
	return is_crowded(&crowd, BOX_EVENTS_MAX, at_ms);
}

static bool crowds_all(const struct boxes *boxes, int64_t at_ms)
{
	struct boxes_crowd crowd = { 0 };
	for (size_t i = 0; i < BOXES_EVENTS_MAX; i++)
		crowd_add(&crowd, &boxes->events[i].event);
	return is_crowded(&crowd, BOXES_EVENTS_MAX, at_ms);
}

int64_t boxes_event(struct boxes *boxes, struct box *box, int64_t at_ms, const char *type,
		    char *data)
{
	bool denied = !strcmp(type, history_names[HISTORY_DENIED]);
	pthread_mutex_lock(&boxes->lock);
	if (denied && crowds_box(box, at_ms)) {
		pthread_mutex_unlock(&boxes->lock);
		free(data);
		return -1;
	}
	int64_t seq = box->next_seq++;
	note(&box->events[seq % BOX_EVENTS_MAX], seq, at_ms, type, data);
	if (!denied || !crowds_all(boxes, at_ms)) {
		struct boxes_event *of_all = &boxes->events[boxes->next_seq % BOXES_EVENTS_MAX];
		note(&of_all->event, boxes->next_seq++, at_ms, type, data ? xstrdup(data) : NULL);
		memcpy(of_all->id, box->id, sizeof of_all->id);
	}
	waiter_wake(box->watchers);
	waiter_wake(boxes->watchers);
	pthread_mutex_unlock(&boxes->lock);
	return seq;
}
