#include "mcp/session.h"

#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "code/kernels.h"
#include "code/nodejs_sessions.h"
#include "config/config.h"
#include "mcp/exchange.h"
#include "mcp/resource_watch.h"
#include "mcp/stream.h"
#include "session/sessions.h"
#include "shell/bash_sessions.h"
#include "shell/shells.h"

enum {
	KEPT_MAX = 16,
	KEPT_BYTES_MAX = STREAM_REPLY_MAX,
	SUBSCRIPTIONS_MAX = 1000,
	NOTICE_MAX = 65536
};

/* A stream whose numbers a client knows. */
struct session_kept {
	struct session_kept *older;
	struct mcp_stream *stream;
};

/* A question to the client. */
struct asked {
	struct asked *next;
	json_int_t id;
	int event_fd;
	json_t *answer;
};

struct mcp_session {
	struct session base;
	char own[20]; /* see session_own(): not its id, which is a secret */
	struct mcp_stream *stream;
	char *only;
	_Atomic int revision, log_level;
	json_t *capabilities;      /* set once; under the lock, like what follows */
	struct session_kept *kept; /* the newest first */
	struct exchange *exchanges;
	struct asked *asked;
	json_t *uris;
	uint64_t next_stream;
	json_int_t next_ask;
};

/* ---- life ---- */

void session_ref(struct mcp_session *session)
{
	sessions_use(&session->base);
}

void session_unref(struct mcp_session *session)
{
	sessions_release(session);
}

static void done(void *arg)
{
	struct mcp_session *session = arg;
	for (struct session_kept *kept = session->kept, *older; kept; kept = older) {
		older = kept->older;
		stream_unref(kept->stream);
		free(kept);
	}
	stream_unref(session->stream);
	json_decref(session->capabilities);
	json_decref(session->uris);
	free(session->only);
}

static bool busy(void *arg)
{
	struct mcp_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	bool result = session->exchanges != NULL;
	pthread_mutex_unlock(&session->base.lock);
	return result;
}

/* Without locks. Those that it never opened are not there. */
static void end_own(const struct mcp_session *session)
{
	static struct sessions *const tables[] = { &bash_sessions, &shell_sessions,
						   &kernels_sessions, &nodejs_sessions };
	for (size_t i = 0; i < COUNT(tables); i++)
		(void)sessions_close(tables[i], session->own, NULL);
}

static void end(void *arg)
{
	struct mcp_session *session = arg;
	pthread_mutex_lock(&session->base.lock);
	for (struct exchange *ex = session->exchanges; ex; ex = ex->next)
		exchange_cancel(ex);
	for (struct session_kept *kept = session->kept; kept; kept = kept->older)
		stream_close(kept->stream);
	json_t *uris = session->uris;
	session->uris = NULL;
	pthread_mutex_unlock(&session->base.lock);
	stream_close(session->stream);
	const char *uri;
	json_t *ignored;
	json_object_foreach(uris, uri, ignored)
		resource_watch_remove(uri);
	json_decref(uris);
	end_own(session);
}

struct sessions mcp_sessions = {
	.kind = "mcp",
	.size = sizeof(struct mcp_session),
	.secret = true,
	.busy = busy,
	.end = end,
	.done = done,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* What a session starts with. */
struct session_start {
	enum mcp_revision revision;
	const json_t *capabilities;
	const char *only;
	unsigned tag; /* any */
};

static void fill(void *arg, void *how)
{
	struct mcp_session *session = arg;
	const struct session_start *start = how;
	session->revision = (int)start->revision;
	session->log_level = RANK_INFO;
	session->only = start->only ? xstrdup(start->only) : NULL;
	session->capabilities = json_deep_copy(start->capabilities);
	session->uris = json_object();
	session->stream = stream_new(0, true);
	snprintf(session->own, sizeof session->own, "mcp-%08x", start->tag);
}

struct mcp_session *session_open(enum mcp_revision revision, const json_t *capabilities,
				 const char *only, struct err *err)
{
	unsigned char random[16];
	char id[2 * sizeof random + 1];
	struct session_start start = { revision, capabilities, only, 0 };
	if (RAND_bytes(random, sizeof random) != 1 ||
	    RAND_bytes((unsigned char *)&start.tag, sizeof start.tag) != 1) {
		err_set(err, ERR_INTERNAL, "no randomness for a session");
		return NULL;
	}
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(id + 2 * i, 3, "%02x", random[i]);
	sessions_expire(&mcp_sessions);
	return sessions_open(&mcp_sessions, id, fill, &start, err);
}

struct mcp_session *session_find(const char *id, struct err *err)
{
	struct mcp_session *session = sessions_find(&mcp_sessions, id, err);
	if (!session)
		return NULL;
	pthread_mutex_lock(&session->base.lock);
	sessions_touch(&session->base);
	pthread_mutex_unlock(&session->base.lock);
	return session;
}

int session_close(const char *id, struct err *err)
{
	return sessions_close(&mcp_sessions, id, err);
}

/* ---- what is known of it ---- */

const char *session_id(const struct mcp_session *session)
{
	return session->base.id;
}

const char *session_own(const struct mcp_session *session)
{
	return session ? session->own : NULL;
}

enum mcp_revision session_revision(const struct mcp_session *session)
{
	return (enum mcp_revision)session->revision;
}

const char *session_only(const struct mcp_session *session)
{
	return session->only;
}

const json_t *session_capabilities(const struct mcp_session *session)
{
	return session->capabilities;
}

int session_log_level(struct mcp_session *session)
{
	return session->log_level;
}

void session_set_log_level(struct mcp_session *session, int level)
{
	session->log_level = level;
}

void session_begin(struct mcp_session *session, enum mcp_revision revision,
		   const json_t *capabilities)
{
	session->revision = (int)revision;
	pthread_mutex_lock(&session->base.lock);
	if (!session->capabilities)
		session->capabilities = json_deep_copy(capabilities);
	pthread_mutex_unlock(&session->base.lock);
}

/* ---- streams ---- */

struct mcp_stream *session_stream(struct mcp_session *session)
{
	return session->stream;
}

struct mcp_stream *session_new_stream(struct mcp_session *session)
{
	pthread_mutex_lock(&session->base.lock);
	uint64_t id = ++session->next_stream;
	pthread_mutex_unlock(&session->base.lock);
	return stream_new(id, false);
}

void session_keep_stream(struct mcp_session *session, struct mcp_stream *stream)
{
	struct session_kept *kept = xcalloc(1, sizeof *kept), *gone = NULL, *older;
	kept->stream = stream_ref(stream);
	pthread_mutex_lock(&session->base.lock);
	kept->older = session->kept;
	session->kept = kept;
	size_t count = 0, bytes = 0;
	for (struct session_kept **at = &session->kept; *at && !gone; at = &(*at)->older) {
		bytes += stream_bytes((*at)->stream);
		if (++count > KEPT_MAX || (count > 1 && bytes > KEPT_BYTES_MAX)) {
			gone = *at;
			*at = NULL;
			break;
		}
	}
	if (session->base.closed)
		stream_close(stream);
	pthread_mutex_unlock(&session->base.lock);
	for (; gone; gone = older) {
		older = gone->older;
		stream_unref(gone->stream);
		free(gone);
	}
}

struct mcp_stream *session_find_stream(struct mcp_session *session, uint64_t id)
{
	struct mcp_stream *found = id == 0 ? stream_ref(session->stream) : NULL;
	pthread_mutex_lock(&session->base.lock);
	for (struct session_kept *kept = session->kept; kept && !found; kept = kept->older)
		if (stream_id(kept->stream) == id)
			found = stream_ref(kept->stream);
	pthread_mutex_unlock(&session->base.lock);
	return found;
}

/* ---- exchanges ---- */

void session_remember(struct mcp_session *session, struct exchange *ex)
{
	pthread_mutex_lock(&session->base.lock);
	ex->next = session->exchanges;
	session->exchanges = exchange_ref(ex);
	if (session->base.closed)
		exchange_cancel(ex);
	pthread_mutex_unlock(&session->base.lock);
}

void session_forget(struct mcp_session *session, const struct exchange *ex)
{
	struct exchange *found = NULL;
	pthread_mutex_lock(&session->base.lock);
	for (struct exchange **at = &session->exchanges; *at; at = &(*at)->next)
		if (*at == ex) {
			found = *at;
			*at = found->next;
			break;
		}
	sessions_touch(&session->base);
	bool closed = session->base.closed;
	pthread_mutex_unlock(&session->base.lock);
	exchange_unref(found);
	if (closed) /* the exchange may have opened one after end() */
		end_own(session);
}

void session_cancel(struct mcp_session *session, const json_t *id)
{
	pthread_mutex_lock(&session->base.lock);
	for (struct exchange *ex = session->exchanges; ex; ex = ex->next)
		if (ex->id && json_equal(ex->id, id))
			exchange_cancel(ex);
	pthread_mutex_unlock(&session->base.lock);
}

/* ---- questions to the client ---- */

json_t *session_ask(struct mcp_session *session, int event_fd)
{
	struct asked *asked = xcalloc(1, sizeof *asked);
	asked->event_fd = event_fd;
	pthread_mutex_lock(&session->base.lock);
	asked->id = ++session->next_ask;
	asked->next = session->asked;
	session->asked = asked;
	pthread_mutex_unlock(&session->base.lock);
	return json_integer(asked->id);
}

void session_answered(struct mcp_session *session, const json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	pthread_mutex_lock(&session->base.lock);
	for (struct asked *asked = session->asked; asked && json_is_integer(id);
	     asked = asked->next)
		if (asked->id == json_integer_value(id) && !asked->answer) {
			asked->answer = json_deep_copy(message);
			(void)eventfd_write(asked->event_fd, 1);
		}
	pthread_mutex_unlock(&session->base.lock);
}

json_t *session_asked(struct mcp_session *session, const json_t *id)
{
	json_t *answer = NULL;
	pthread_mutex_lock(&session->base.lock);
	for (struct asked **at = &session->asked; *at; at = &(*at)->next)
		if ((*at)->id == json_integer_value(id)) {
			struct asked *asked = *at;
			answer = asked->answer;
			*at = asked->next;
			free(asked);
			break;
		}
	pthread_mutex_unlock(&session->base.lock);
	return answer;
}

/* ---- subscriptions ---- */

int session_subscribe(struct mcp_session *session, const char *uri, struct err *err)
{
	int result = 0;
	pthread_mutex_lock(&session->base.lock);
	if (session->base.closed || json_object_get(session->uris, uri))
		goto out;
	if (json_object_size(session->uris) >= SUBSCRIPTIONS_MAX)
		result = err_set(err, ERR_LIMIT, "no more than %d subscriptions at once",
				 SUBSCRIPTIONS_MAX);
	else
		result = resource_watch_add(uri, err);
	if (result == 0)
		json_object_set_new(session->uris, uri, json_true());
out:
	pthread_mutex_unlock(&session->base.lock);
	return result;
}

void session_unsubscribe(struct mcp_session *session, const char *uri)
{
	pthread_mutex_lock(&session->base.lock);
	bool known = json_object_get(session->uris, uri);
	if (known)
		json_object_del(session->uris, uri);
	pthread_mutex_unlock(&session->base.lock);
	if (known)
		resource_watch_remove(uri);
}

/* ---- news ---- */

static const struct {
	const char *method, *wanted; /* its name in subscriptions/listen */
} kinds[] = {
	[NEWS_TOOLS] = { "notifications/tools/list_changed", "toolsListChanged" },
	[NEWS_PROMPTS] = { "notifications/prompts/list_changed", "promptsListChanged" },
	[NEWS_RESOURCES] = { "notifications/resources/list_changed", "resourcesListChanged" },
	[NEWS_UPDATED] = { "notifications/resources/updated", "resourceSubscriptions" },
};

struct session_listener {
	struct session_listener *next;
	struct mcp_stream *stream;
	json_t *id, *wanted;
};

static struct {
	pthread_mutex_t lock;
	struct session_listener *first;
} listeners = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void put_news(struct mcp_stream *stream, const char *method, const json_t *params)
{
	struct jw jw;
	jw_init(&jw, NOTICE_MAX);
	jw_open(&jw, '{');
	jw_key_str(&jw, "jsonrpc", "2.0");
	jw_key_str(&jw, "method", method);
	if (params) {
		jw_key(&jw, "params");
		jw_json(&jw, params);
	}
	jw_close(&jw, '}');
	if (!jw_failed(&jw))
		stream_add(stream, jw.out.data, jw.out.len, false);
	jw_done(&jw);
}

struct news_item {
	enum news news;
	const char *uri;
	int rank; /* of a log message; else -1 */
	const char *method;
	json_t *params;
};

static void tell_session(struct mcp_session *session, const struct news_item *item)
{
	if (item->rank >= 0 && item->rank < session->log_level)
		return;
	if (item->rank < 0 && item->news == NEWS_UPDATED) {
		pthread_mutex_lock(&session->base.lock);
		bool wanted = json_object_get(session->uris, item->uri);
		pthread_mutex_unlock(&session->base.lock);
		if (!wanted)
			return;
	}
	put_news(session->stream, item->method, item->params);
}

static void tell_sessions(const struct news_item *item)
{
	struct arena arena = { 0 };
	size_t count;
	void **all = sessions_list(&mcp_sessions, &arena, &count);
	for (size_t i = 0; i < count; i++)
		tell_session(all[i], item);
	arena_done(&arena);
}

static bool wants(const struct session_listener *listener, enum news news, const char *uri)
{
	const json_t *wanted = json_object_get(listener->wanted, kinds[news].wanted);
	size_t i;
	json_t *one;
	if (news != NEWS_UPDATED)
		return json_is_true(wanted);
	json_array_foreach(wanted, i, one)
		if (uri && json_is_string(one) && !strcmp(json_string_value(one), uri))
			return true;
	return false;
}

/* What a listener is sent carries the id of the request that began it. */
static void tell_listener(const struct session_listener *listener, const char *method,
			  const json_t *params)
{
	json_t *tagged = params ? json_deep_copy(params) : json_object();
	json_object_set_new(tagged, "_meta",
			    json_pack("{s:O}", "io.modelcontextprotocol/subscriptionId",
				      listener->id));
	put_news(listener->stream, method, tagged);
	json_decref(tagged);
}

void session_tell(enum news news, const char *uri)
{
	struct news_item item = { news, uri, -1, kinds[news].method,
				  uri ? json_pack("{s:s}", "uri", uri) : NULL };
	tell_sessions(&item);
	pthread_mutex_lock(&listeners.lock);
	for (struct session_listener *at = listeners.first; at; at = at->next)
		if (wants(at, news, uri))
			tell_listener(at, item.method, item.params);
	pthread_mutex_unlock(&listeners.lock);
	json_decref(item.params);
}

void session_log(int rank, const char *logger, const char *text)
{
	struct news_item item = { NEWS_TOOLS, NULL, rank, "notifications/message",
				  json_pack("{s:s,s:s,s:s}", "level", exchange_levels[rank],
					    "logger", logger, "data", text) };
	if (item.params)
		tell_sessions(&item);
	json_decref(item.params);
}

/* The resources that a listener wants are watched while it listens. */
static void resource_watch_wanted(const struct session_listener *listener, bool add)
{
	size_t i;
	json_t *uri;
	json_array_foreach(json_object_get(listener->wanted, "resourceSubscriptions"), i, uri)
		if (json_is_string(uri) && i < SUBSCRIPTIONS_MAX)
			(void)(add ? resource_watch_add(json_string_value(uri), NULL)
				   : (resource_watch_remove(json_string_value(uri)), 0));
}

struct session_listener *session_listen(struct mcp_stream *stream, const json_t *id,
					const json_t *wanted)
{
	struct session_listener *listener = xcalloc(1, sizeof *listener);
	listener->stream = stream_ref(stream);
	listener->id = json_deep_copy(id);
	listener->wanted = json_is_object(wanted) ? json_deep_copy(wanted) : json_object();
	resource_watch_wanted(listener, true);
	json_t *params = json_pack("{s:O}", "notifications", listener->wanted);
	pthread_mutex_lock(&listeners.lock); /* the acknowledgement comes before any news */
	tell_listener(listener, "notifications/subscriptions/acknowledged", params);
	listener->next = listeners.first;
	listeners.first = listener;
	pthread_mutex_unlock(&listeners.lock);
	json_decref(params);
	return listener;
}

void session_unlisten(struct session_listener *listener)
{
	pthread_mutex_lock(&listeners.lock);
	struct session_listener **at = &listeners.first;
	while (*at && *at != listener)
		at = &(*at)->next;
	if (*at)
		*at = listener->next;
	pthread_mutex_unlock(&listeners.lock);
	resource_watch_wanted(listener, false);
	stream_unref(listener->stream);
	json_decref(listener->id);
	json_decref(listener->wanted);
	free(listener);
}
