/* Requests that are cancelled before anybody serves them: they end all the same. */
#include "mcp/exchange.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"
#include "mcp/session.h"
#include "mcp/stream.h"
#include "net/server.h"
#include "session/sessions.h"
#include "tap.h"

enum { SECONDS = 10 };

/* One that lasts until it is cancelled. */
static struct exchange *listen_on(struct server *server, struct mcp_session *session,
				  struct mcp_stream *stream)
{
	struct exchange_from from = {
		.server = server, .session = session, .revision = MCP_2026_07_28, .listens = true
	};
	return exchange_new(&from, stream,
			    json_pack("{s:i,s:s,s:{}}", "id", 1, "method", "subscriptions/listen",
				      "params"));
}

static bool ends(struct mcp_stream *stream)
{
	for (int i = 0; i < SECONDS * 100 && !stream_look(stream, 0).over; i++)
		poll(NULL, 0, 10);
	return stream_look(stream, 0).over;
}

static void cancelled_at_once(struct server *server)
{
	struct mcp_stream *stream = stream_new(1, false);
	struct exchange *ex = listen_on(server, NULL, stream);
	exchange_cancel(ex);
	exchange_start(ex);
	CHECK(ends(stream));
	exchange_unref(ex);
	stream_unref(stream);
}

static void its_session_has_ended(struct server *server)
{
	struct err err;
	struct mcp_session *session = session_open(MCP_NEWEST_SESSION, NULL, NULL, &err);
	struct mcp_stream *stream = session_new_stream(session);
	struct exchange *ex = listen_on(server, session, stream);
	CHECK(session_close(session_id(session), &err) == 0);
	exchange_start(ex);
	CHECK(ends(stream));
	exchange_unref(ex);
	stream_unref(stream);
	session_unref(session);
}

/* The progress of the message after a number; -1 when there is none. */
static double told_after(struct mcp_stream *stream, uint64_t number)
{
	struct stream_message *message = stream_next(stream, number);
	json_t *said = message ? json_loads(message->text, 0, NULL) : NULL;
	double told = -1;
	if (said)
		(void)json_unpack(said, "{s:{s:F}}", "params", "progress", &told);
	json_decref(said);
	free(message);
	return told;
}

static void progress_only_increases(struct server *server)
{
	struct mcp_stream *stream = stream_new(1, false);
	struct exchange_from from = { .server = server,
				      .revision = MCP_2026_07_28,
				      .listens = true };
	struct exchange *ex =
		exchange_new(&from, stream,
			     json_pack("{s:i,s:s,s:{s:{s:i}}}", "id", 1, "method", "ping", "params",
				       "_meta", "progressToken", 1));
	static const double own[] = { 0, 5, 5, 3, 7 };
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		exchange_progress(ex, own[i], 10, NULL);
	CHECK(told_after(stream, 0) == 0 && told_after(stream, 1) == 5);
	CHECK(told_after(stream, 2) == 7 && stream_look(stream, 0).last == 3);
	exchange_start(ex);
	CHECK(stream_look(stream, 0).last == 4);
	exchange_progress(ex, 8, 10, NULL); /* of a server that has not heard of its end */
	CHECK(stream_look(stream, 0).last == 4);
	exchange_unref(ex);
	stream_unref(stream);
}

int main(void)
{
	int stop[2];
	struct config config = { .max_sessions = 4, .session_ms = 60000 };
	CHECK(pipe(stop) == 0);
	struct server server = { .config = &config, .stop_fd = stop[0] };
	sessions_limit(&mcp_sessions, config.max_sessions, config.session_ms);
	cancelled_at_once(&server);
	its_session_has_ended(&server);
	progress_only_increases(&server);
	close(stop[1]); /* what is left ends, too */
	exchange_end_all();
	close(stop[0]);
	return tap_done();
}
