#include "desktop/clipboard.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "desktop/x.h"
#include "desktop/x_link.h"
#include "desktop/x_protocol.h"

enum {
	EVENTS_KEPT = 256,
	READ_MS = 700,   /* for the owner of what is there before, to give it */
	LINGER_MS = 800, /* how long a text stays after it was taken */
	CHUNK = 128 << 10,
	TRANSFERS = 8, /* that are under way in pieces */
};

enum atom_name {
	A_CLIPBOARD,
	A_TARGETS,
	A_UTF8,
	A_PLAIN_UTF8,
	A_PLAIN,
	A_TEXT,
	A_INCR,
	A_OURS,
	ATOMS
};
static const char *const atom_names[ATOMS] = { "CLIPBOARD",   "TARGETS",
					       "UTF8_STRING", "text/plain;charset=utf-8",
					       "text/plain",  "TEXT",
					       "INCR",        "_AIO_SELECTION" };

/* A text that is given in pieces: the next is put when the one before was taken. */
struct transfer {
	uint32_t window, property, target; /* window 0: there is none */
	bool counts;                       /* it is of the text on offer */
	struct buf text;
	size_t at;
};

struct held {
	char *text; /* NULL: we do not own the selection */
	size_t len;
};

enum ask { ASK_NOTHING, ASK_OFFER, ASK_BACK, ASK_BACK_LATER };

struct clipboard {
	struct x_link link;
	uint32_t window, atoms[ATOMS];
	pthread_t thread;
	int ask_fd;

	/* The thread's own. */
	struct held held[SELECTIONS], before;
	enum clipboard_which which;
	bool on_offer; /* held[which] is what was offered, and before is what to put back */
	int64_t back_ms;
	struct transfer transfers[TRANSFERS];
	size_t dropped; /* of them, in turns: whose program may have left */

	/* With the lock. */
	pthread_mutex_t lock;
	struct waiter *waiters;
	enum ask ask;
	enum clipboard_which wanted;
	struct held offer;
	bool ready, taken, ending, broken;
};

static void drop(struct held *held)
{
	free(held->text);
	*held = (struct held){ NULL, 0 };
}

static uint32_t selection(const struct clipboard *c, enum clipboard_which which)
{
	return which == PRIMARY ? (uint32_t)X_PRIMARY : c->atoms[A_CLIPBOARD];
}

static void tell(struct clipboard *c, bool *what)
{
	pthread_mutex_lock(&c->lock);
	*what = true;
	waiter_wake(c->waiters);
	pthread_mutex_unlock(&c->lock);
}

/* ---- giving it to programs ---- */

static void put_property(struct clipboard *c, uint32_t window, uint32_t property, uint32_t type,
			 unsigned format, const void *data, size_t len)
{
	const uint32_t words[] = { window, property, type, format, (uint32_t)(len / (format / 8)) };
	x_link_put_tail(&c->link, &(struct x_request){ X_CHANGE_PROPERTY, 0, words, COUNT(words),
						       data, len });
}

static void put_words(struct clipboard *c, uint32_t window, uint32_t property, uint32_t type,
		      const uint32_t *values, size_t count)
{
	uint32_t words[5 + ATOMS] = { window, property, type, 32, (uint32_t)count };
	memcpy(words + 5, values, count * sizeof *values);
	x_link_put(&c->link, X_CHANGE_PROPERTY, 0, words, 5 + count);
}

static void put32(unsigned char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

/* Tells who has asked that it is there; property 0: that it is not to be had. */
static void notify(struct clipboard *c, const unsigned char *request, uint32_t property)
{
	unsigned char event[X_PACKET] = { X_SELECTION_NOTIFY };
	const uint32_t words[] = { x_get32(request + 12), 0 };
	memcpy(event + 4, request + 4, 4);   /* when */
	memcpy(event + 8, request + 12, 12); /* who, which, as what */
	put32(event + 20, property);
	x_link_put_tail(&c->link, &(struct x_request){ X_SEND_EVENT, 0, words, COUNT(words), event,
						       sizeof event });
}

static void end_transfer(struct transfer *t)
{
	buf_done(&t->text);
	*t = (struct transfer){ 0 };
}

/* The one of a property, or NULL. */
static struct transfer *find_transfer(struct clipboard *c, uint32_t window, uint32_t property)
{
	for (struct transfer *t = c->transfers; t < c->transfers + TRANSFERS; t++)
		if (t->window == window && t->property == property)
			return t;
	return NULL;
}

/* Where another one may begin: a program that left in the middle of one does not say so. */
static struct transfer *free_transfer(struct clipboard *c)
{
	struct transfer *t = find_transfer(c, 0, 0);
	if (!t)
		t = &c->transfers[c->dropped++ % TRANSFERS];
	end_transfer(t);
	return t;
}

static void begin_transfer(struct clipboard *c, const unsigned char *request, uint32_t property,
			   const struct held *held, bool counts)
{
	const uint32_t window = x_get32(request + 12), size = (uint32_t)held->len;
	const uint32_t select[] = { window, X_CW_EVENT_MASK, X_PROPERTY_CHANGE_MASK };
	struct transfer *t = find_transfer(c, window, property);
	if (t)
		end_transfer(t); /* it asks again */
	else
		t = free_transfer(c);
	*t = (struct transfer){
		window, property, x_get32(request + 20), counts, BUF(CLIPBOARD_MAX + 1), 0
	};
	(void)buf_add(&t->text, held->text, held->len);
	x_link_put(&c->link, X_CHANGE_WINDOW_ATTRIBUTES, 0, select, COUNT(select));
	put_words(c, window, property, c->atoms[A_INCR], &size, 1);
}

/* Its callers press keys next, on another connection: the program has to have its text before these. */
static void tell_taken(struct clipboard *c, const struct wait *wait)
{
	(void)x_link_sync(&c->link, wait, NULL);
	tell(c, &c->taken);
}

/* A property was taken: the next piece, of which the last is empty. */
static void go_on(struct clipboard *c, const unsigned char *event, const struct wait *wait)
{
	const uint32_t window = x_get32(event + 4), atom = x_get32(event + 8);
	struct transfer *t = window ? find_transfer(c, window, atom) : NULL;
	if (!t || event[16] != 1) /* 1: deleted */
		return;
	size_t left = t->text.len - t->at, len = left < CHUNK ? left : CHUNK;
	put_property(c, window, atom, t->target, 8, t->text.data + t->at, len);
	t->at += len;
	if (len)
		return;
	if (t->counts)
		tell_taken(c, wait);
	end_transfer(t);
}

static bool is_text(const struct clipboard *c, uint32_t target)
{
	return target == c->atoms[A_UTF8] || target == c->atoms[A_PLAIN_UTF8] ||
	       target == c->atoms[A_PLAIN] || target == c->atoms[A_TEXT];
}

/* The X server's own clients ask for the sake of VNC: that is no paste. */
static bool is_program(const struct clipboard *c, uint32_t window)
{
	return window & ~c->link.setup.id_mask;
}

static bool give(struct clipboard *c, const unsigned char *request, uint32_t property,
		 enum clipboard_which which)
{
	const struct held *held = &c->held[which];
	const uint32_t window = x_get32(request + 12), target = x_get32(request + 20);
	const uint32_t type = target == c->atoms[A_TEXT] ? c->atoms[A_UTF8] : target;
	const bool counts = c->on_offer && which == c->which && is_program(c, window);
	if (!held->text)
		return false;
	if (target == c->atoms[A_TARGETS]) {
		const uint32_t targets[] = { c->atoms[A_TARGETS], c->atoms[A_UTF8],
					     c->atoms[A_PLAIN_UTF8], c->atoms[A_PLAIN],
					     c->atoms[A_TEXT] };
		put_words(c, window, property, X_ATOM, targets, COUNT(targets));
		return true;
	}
	if (!is_text(c, target))
		return false;
	if (held->len > CHUNK)
		begin_transfer(c, request, property, held, counts);
	else
		put_property(c, window, property, type, 8, held->text, held->len);
	return true;
}

static void answer(struct clipboard *c, const unsigned char *request, const struct wait *wait)
{
	const uint32_t target = x_get32(request + 20), window = x_get32(request + 12);
	const uint32_t named = x_get32(request + 24), property = named ? named : target;
	enum clipboard_which which = CLIPBOARD;
	while (which < SELECTIONS && selection(c, which) != x_get32(request + 16))
		which++;
	const bool given = which < SELECTIONS && give(c, request, property, which);
	notify(c, request, given ? property : 0);
	if (given && is_text(c, target) && c->on_offer && which == c->which &&
	    is_program(c, window) && c->held[which].len <= CHUNK)
		tell_taken(c, wait);
}

static uint32_t owner_of(struct clipboard *c, uint32_t of, const struct wait *wait)
{
	struct x_packet packet;
	x_link_put(&c->link, X_GET_SELECTION_OWNER, 0, &of, 1);
	if (x_link_reply(&c->link, X_PACKET, &packet, wait, NULL) < 0)
		return 0;
	return x_get32(packet.data + 8);
}

/* Somebody else owns it now: what was there before is not put back. The news may be of our giving it up, and
 * older than our taking it again. */
static void lose(struct clipboard *c, uint32_t lost, const struct wait *wait)
{
	if (owner_of(c, lost, wait) == c->window)
		return;
	for (int i = 0; i < SELECTIONS; i++) {
		if (selection(c, (enum clipboard_which)i) != lost)
			continue;
		drop(&c->held[i]);
		if (c->on_offer && i == (int)c->which) {
			drop(&c->before);
			c->on_offer = false;
		}
	}
}

static void take_event(struct clipboard *c, const struct x_packet *packet, const struct wait *wait)
{
	if (packet->kind == X_SELECTION_REQUEST)
		answer(c, packet->data, wait);
	else if (packet->kind == X_SELECTION_CLEAR)
		lose(c, x_get32(packet->data + 12), wait);
	else if (packet->kind == X_PROPERTY_NOTIFY)
		go_on(c, packet->data, wait);
	(void)x_link_flush(&c->link, wait, NULL);
}

/* ---- what is there before ---- */

/* Waits for an event of a kind that is about our window, and serves others meanwhile. */
static bool await_event(struct clipboard *c, unsigned kind, unsigned state, const struct wait *wait,
			struct x_packet *ret)
{
	const size_t about = kind == X_PROPERTY_NOTIFY ? 4 : 8;
	while (x_link_event(&c->link, -1, ret, wait, NULL) == 0) {
		bool ours = ret->kind == kind && x_get32(ret->data + about) == c->window;
		if (ours &&
		    (kind != X_PROPERTY_NOTIFY ||
		     (ret->data[16] == state && x_get32(ret->data + 8) == c->atoms[A_OURS])))
			return true;
		take_event(c, ret, wait);
	}
	return false;
}

/* Takes the property that a piece is in. -1: it is not text, or too much. */
static int take_piece(struct clipboard *c, struct buf *to, bool *ret_pieces,
		      const struct wait *wait)
{
	struct x_property p;
	if (x_link_property(&c->link, c->window, c->atoms[A_OURS], true, CLIPBOARD_MAX / 4 - 64, &p,
			    wait, NULL) < 0 ||
	    p.more)
		return -1;
	*ret_pieces = p.type == c->atoms[A_INCR];
	if (*ret_pieces)
		return 0;
	if (p.format != 8)
		return -1;
	return buf_add(to, p.data, p.len) < 0 ? -1 : (int)(p.len > 0);
}

static bool read_text(struct clipboard *c, uint32_t of, struct buf *to)
{
	struct x_packet packet;
	bool pieces = false;
	const struct wait wait = { clock_ms() + READ_MS, -1, -1 };
	const uint32_t words[] = { c->window, of, c->atoms[A_UTF8], c->atoms[A_OURS], 0 };
	x_link_put(&c->link, X_CONVERT_SELECTION, 0, words, COUNT(words));
	if (x_link_flush(&c->link, &wait, NULL) < 0 ||
	    !await_event(c, X_SELECTION_NOTIFY, 0, &wait, &packet) || !x_get32(packet.data + 20))
		return false;
	int got = take_piece(c, to, &pieces, &wait);
	for (bool more = pieces; more && got >= 0; more = got > 0) {
		if (!await_event(c, X_PROPERTY_NOTIFY, 0, &wait, &packet))
			return false;
		got = take_piece(c, to, &pieces, &wait);
	}
	return got >= 0;
}

/* What is in a selection, as text; nothing where nobody has put anything there, or no text. */
static struct held keep(struct clipboard *c, enum clipboard_which which, const struct wait *wait)
{
	auto_buf struct buf text = BUF(CLIPBOARD_MAX);
	(void)x_link_sync(&c->link, wait, NULL); /* errors of earlier requests are not of this */
	uint32_t owner = owner_of(c, selection(c, which), wait);
	if (owner == c->window && c->held[which].text) {
		struct held ours = c->held[which];
		c->held[which] = (struct held){ NULL, 0 };
		return ours;
	}
	if (!owner || !read_text(c, selection(c, which), &text) || !text.len)
		return (struct held){ NULL, 0 };
	return (struct held){ TAKE(text.data), text.len };
}

/* ---- what is asked of the thread ---- */

static void set_owner(struct clipboard *c, enum clipboard_which which, bool own)
{
	const uint32_t words[] = { own ? c->window : 0, selection(c, which), 0 };
	x_link_put(&c->link, X_SET_SELECTION_OWNER, 0, words, COUNT(words));
	(void)x_link_sync(&c->link, &(struct wait){ clock_ms() + READ_MS, -1, -1 }, NULL);
}

static void put_back(struct clipboard *c)
{
	c->back_ms = INT64_MAX;
	if (!c->on_offer)
		return;
	c->on_offer = false;
	drop(&c->held[c->which]);
	c->held[c->which] = c->before;
	c->before = (struct held){ NULL, 0 };
	if (!c->held[c->which].text)
		set_owner(c, c->which, false);
}

static void put_offer(struct clipboard *c, enum clipboard_which which, struct held offer)
{
	const struct wait wait = { clock_ms() + READ_MS, -1, -1 };
	put_back(c);
	c->which = which;
	c->before = keep(c, which, &wait);
	drop(&c->held[which]);
	c->held[which] = offer;
	c->on_offer = true;
	set_owner(c, which, true);
	tell(c, &c->ready);
}

static void do_ask(struct clipboard *c)
{
	eventfd_t ignored;
	(void)eventfd_read(c->ask_fd, &ignored);
	pthread_mutex_lock(&c->lock);
	const enum ask ask = c->ask;
	const enum clipboard_which which = c->wanted;
	struct held offer = c->offer;
	c->ask = ASK_NOTHING;
	c->offer = (struct held){ NULL, 0 };
	pthread_mutex_unlock(&c->lock);
	if (ask == ASK_OFFER) {
		put_offer(c, which, offer);
		return;
	}
	drop(&offer);
	if (ask == ASK_BACK && c->on_offer)
		drop(&c->held[c->which]); /* who asks late gets nothing, rather than what was before */
	if (ask != ASK_NOTHING)
		c->back_ms = clock_ms() + LINGER_MS;
}

static bool is_ending(struct clipboard *c)
{
	pthread_mutex_lock(&c->lock);
	bool ending = c->ending;
	pthread_mutex_unlock(&c->lock);
	return ending;
}

static void *serve(void *arg)
{
	struct clipboard *c = arg;
	struct x_packet packet;
	while (!is_ending(c)) {
		const struct wait wait = { c->back_ms, -1, -1 };
		const struct wait moment = { clock_ms() + READ_MS, -1, -1 };
		int result = x_link_event(&c->link, c->ask_fd, &packet, &wait, NULL);
		if (c->link.broken)
			break;
		if (result < 0)
			put_back(c);
		else if (packet.kind == X_REPLY)
			do_ask(c);
		else
			take_event(c, &packet, &moment);
	}
	tell(c, &c->broken);
	return NULL;
}

/* ---- for callers ---- */

static int make_window(struct clipboard *c, const struct wait *wait, struct err *err)
{
	const uint32_t input_only = 2;
	c->window = x_link_id(&c->link);
	const uint32_t words[] = {
		c->window,       c->link.setup.root,    x_pair((unsigned)-10, (unsigned)-10),
		x_pair(1, 1),    input_only << 16,      0,
		X_CW_EVENT_MASK, X_PROPERTY_CHANGE_MASK
	};
	x_link_put(&c->link, X_CREATE_WINDOW, 0, words, COUNT(words));
	if (x_link_sync(&c->link, wait, err) < 0)
		return -1;
	for (int i = 0; i < ATOMS; i++) {
		c->atoms[i] = x_link_atom(&c->link, atom_names[i], wait);
		if (!c->atoms[i])
			return err_set(err, ERR_UNAVAILABLE, "no atom %s", atom_names[i]);
	}
	return 0;
}

struct clipboard *clipboard_open(struct x *x, const struct wait *wait, struct err *err)
{
	struct clipboard *c = xcalloc(1, sizeof *c);
	*c = (struct clipboard){ .lock = PTHREAD_MUTEX_INITIALIZER,
				 .back_ms = INT64_MAX,
				 .ask_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	bool opened = c->ask_fd >= 0 && x_open_link(x, &c->link, wait, err) == 0;
	if (opened) {
		c->link.kept = BUF(EVENTS_KEPT * X_PACKET);
		if (make_window(c, wait, err) == 0 &&
		    thread_start_joinable(&c->thread, serve, c) == 0)
			return c;
		x_link_done(&c->link);
	}
	own_close(&c->ask_fd);
	free(c);
	(void)(err && !err->code && err_set(err, ERR_LIMIT, "no thread for the clipboard"));
	return NULL;
}

void clipboard_free(struct clipboard *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	pthread_mutex_unlock(&c->lock);
	(void)eventfd_write(c->ask_fd, 1);
	(void)pthread_join(c->thread, NULL);
	for (int i = 0; i < SELECTIONS; i++)
		drop(&c->held[i]);
	for (int i = 0; i < TRANSFERS; i++)
		end_transfer(&c->transfers[i]);
	drop(&c->before);
	drop(&c->offer);
	x_link_done(&c->link);
	own_close(&c->ask_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool clipboard_broken(struct clipboard *c)
{
	pthread_mutex_lock(&c->lock);
	bool broken = c->broken;
	pthread_mutex_unlock(&c->lock);
	return broken;
}

static enum wake await(struct clipboard *c, const bool *what, const struct wait *wait)
{
	enum wake wake = WAKE_READY;
	while (!*what && !c->broken && wake == WAKE_READY)
		wake = wait_change(wait, &c->lock, &c->waiters, NULL);
	return *what ? WAKE_READY : wake == WAKE_READY ? WAKE_TIMEOUT : wake;
}

int clipboard_offer(struct clipboard *c, enum clipboard_which which, const char *text, size_t len,
		    const struct wait *wait, struct err *err)
{
	pthread_mutex_lock(&c->lock);
	drop(&c->offer);
	c->offer = (struct held){ xstrndup(text, len), len };
	c->ask = ASK_OFFER;
	c->wanted = which;
	c->ready = c->taken = false;
	(void)eventfd_write(c->ask_fd, 1);
	enum wake wake = await(c, &c->ready, wait);
	pthread_mutex_unlock(&c->lock);
	return wake_err(wake, err);
}

enum wake clipboard_await(struct clipboard *c, const struct wait *wait)
{
	pthread_mutex_lock(&c->lock);
	enum wake wake = await(c, &c->taken, wait);
	pthread_mutex_unlock(&c->lock);
	return wake;
}

void clipboard_back(struct clipboard *c, bool at_once)
{
	pthread_mutex_lock(&c->lock);
	c->ask = at_once ? ASK_BACK : ASK_BACK_LATER;
	(void)eventfd_write(c->ask_fd, 1);
	pthread_mutex_unlock(&c->lock);
}
