#include "browser/cdp.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "browser/cdp_message.h"
#include "tap.h"

/* The other end is the test itself, as a browser would be. */
struct peer {
	struct cdp *cdp;
	int in[2], out[2];
	_Atomic int events, lost;
	char last[200];
	int told_fd;
};

static void note(void *arg, const char *session, const char *method, const json_t *params)
{
	struct peer *p = arg;
	snprintf(p->last, sizeof p->last, "%s %s %zu", session, method, json_object_size(params));
	atomic_fetch_add(&p->events, 1);
	(void)eventfd_write(p->told_fd, 1);
}

static void note_lost(void *arg)
{
	struct peer *p = arg;
	atomic_fetch_add(&p->lost, 1);
	(void)eventfd_write(p->told_fd, 1);
}

static void open_peer(struct peer *p)
{
	*p = (struct peer){ .told_fd = eventfd(0, EFD_CLOEXEC) };
	const struct cdp_user user = { .event = note, .lost = note_lost, .arg = p };
	if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0)
		abort();
	p->cdp = cdp_new(p->in[1], p->out[0], &user, NULL);
	CHECK(p->cdp != NULL);
}

static void shut(int *fd)
{
	own_close(fd);
	*fd = -1;
}

static void close_peer(struct peer *p)
{
	cdp_free(p->cdp);
	for (int i = 0; i < 2; i++) {
		own_close(&p->in[i]);
		own_close(&p->out[i]);
	}
	own_close(&p->told_fd);
}

static struct wait seconds(int64_t count)
{
	return (struct wait){ clock_ms() + count * 1000, -1, -1 };
}

static void await_told(struct peer *p, _Atomic int *what, int count)
{
	const struct wait wait = seconds(20);
	while (atomic_load(what) < count && wait_event(&wait, p->told_fd) == WAKE_READY)
		;
	CHECK(atomic_load(what) == count);
}

static void say(struct peer *p, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(p->out[1], text, len);
		if (n <= 0)
			abort();
		text += n;
		len -= (size_t)n;
	}
}

static void tell(struct peer *p, const char *text)
{
	say(p, text, strlen(text) + 1);
}

/* What the browser would read next. */
static json_t *hear(struct peer *p)
{
	char text[10000];
	size_t len = 0;
	while (read(p->in[0], text + len, 1) == 1 && text[len])
		if (++len == sizeof text)
			abort();
	text[len] = 0;
	return json_loads(text, 0, NULL);
}

/* ---- a call from another thread ---- */

struct caller {
	struct peer *peer;
	pthread_t thread;
	const char *session, *method;
	int64_t seconds;
	json_t *result;
	struct err err;
};

static void *run_call(void *arg)
{
	struct caller *c = arg;
	const struct wait wait = seconds(c->seconds);
	c->result = cdp_call(c->peer->cdp, c->session, c->method, json_pack("{s:i}", "a", 1), &wait,
			     &c->err);
	return NULL;
}

static void begin(struct caller *c, struct peer *p, const char *session, const char *method)
{
	*c = (struct caller){ .peer = p, .session = session, .method = method, .seconds = 20 };
	if (pthread_create(&c->thread, NULL, run_call, c) != 0)
		abort();
}

static const char *end(struct caller *c, const char *key)
{
	pthread_join(c->thread, NULL);
	return json_string_value(json_object_get(c->result, key));
}

static json_int_t id_of(const json_t *message)
{
	return json_integer_value(json_object_get(message, "id"));
}

static void answer(struct peer *p, json_int_t id, const char *value)
{
	auto_free char *text =
		xasprintf("{\"id\":%lld,\"result\":{\"is\":\"%s\"}}", (long long)id, value);
	tell(p, text);
}

/* ---- tests ---- */

static void answers(void)
{
	struct peer p;
	struct caller one, two;
	open_peer(&p);
	begin(&one, &p, NULL, "A.one");
	json_t *first = hear(&p);
	begin(&two, &p, "S", "A.two");
	json_t *second = hear(&p);
	CHECK_STR(json_string_value(json_object_get(first, "method")), "A.one");
	CHECK(!json_object_get(first, "sessionId"));
	CHECK_STR(json_string_value(json_object_get(second, "sessionId")), "S");
	CHECK(json_integer_value(json_object_get(json_object_get(second, "params"), "a")) == 1);
	answer(&p, 99999, "nobody's");
	answer(&p, id_of(second), "two");
	answer(&p, id_of(first), "one");
	CHECK_STR(end(&one, "is"), "one");
	CHECK_STR(end(&two, "is"), "two");
	json_decref(first);
	json_decref(second);
	json_decref(one.result);
	json_decref(two.result);
	close_peer(&p);
}

static void refusals(void)
{
	struct peer p;
	struct caller c;
	open_peer(&p);
	begin(&c, &p, "S", "A.b");
	json_t *message = hear(&p);
	auto_free char *text = xasprintf("{\"id\":%lld,\"error\":{\"code\":-32000,\"message\":\"No "
					 "such node\",\"data\":\"it is 7\"},\"sessionId\":\"S\"}",
					 (long long)id_of(message));
	tell(&p, text);
	(void)end(&c, "is");
	CHECK(!c.result && c.err.code == ERR_CONFLICT);
	CHECK_STR(c.err.msg, "No such node: it is 7");
	json_decref(message);
	c = (struct caller){ .peer = &p, .method = "A.slow", .seconds = 0 };
	(void)run_call(&c);
	CHECK(!c.result && c.err.code == ERR_SLOW);
	CHECK_STR(c.err.msg, "A.slow took too long");
	close_peer(&p);
}

static void events(void)
{
	static const char torn[] = "{\"method\":\"T.orn\",\"params\":{}}";
	struct peer p;
	open_peer(&p);
	tell(&p, "{\"method\":\"A.b\",\"params\":{\"x\":1,\"y\":2},\"sessionId\":\"S\"}");
	await_told(&p, &p.events, 1);
	CHECK_STR(p.last, "S A.b 2");
	tell(&p, "{\"method\":\"C.d\"}");
	await_told(&p, &p.events, 2);
	CHECK_STR(p.last, " C.d 0");
	tell(&p, "not JSON");
	tell(&p, "");
	tell(&p, "[1,2]");
	tell(&p, "{\"params\":{}}");
	tell(&p, "{\"id\":\"x\"}");
	for (size_t i = 0; i < sizeof torn; i++)
		say(&p, torn + i, 1);
	await_told(&p, &p.events, 3);
	CHECK_STR(p.last, " T.orn 0");
	CHECK(atomic_load(&p.lost) == 0);
	close_peer(&p);
}

/* One that is too large is its caller's loss alone. */
static void huge(void)
{
	enum { CHUNK = 1 << 20 };
	struct peer p;
	struct caller c;
	auto_free char *chunk = xmalloc(CHUNK);
	memset(chunk, 'x', CHUNK);
	open_peer(&p);
	begin(&c, &p, "S", "A.large");
	json_t *message = hear(&p);
	auto_free char *head =
		xasprintf("{\"id\":%lld,\"result\":{\"is\":\"", (long long)id_of(message));
	say(&p, head, strlen(head));
	for (int i = 0; i < 3; i++)
		say(&p, chunk, CHUNK);
	tell(&p, "\"}}");
	const char *value = end(&c, "is");
	CHECK(value && strlen(value) == (size_t)3 * CHUNK);
	json_decref(c.result);
	json_decref(message);
	begin(&c, &p, "S", "A.larger");
	message = hear(&p);
	auto_free char *again =
		xasprintf("{\"id\":%lld,\"result\":{\"is\":\"", (long long)id_of(message));
	say(&p, again, strlen(again));
	for (int i = 0; i < 66; i++)
		say(&p, chunk, CHUNK);
	tell(&p, "\"}}");
	(void)end(&c, "is");
	CHECK(!c.result && c.err.code == ERR_TOO_LARGE);
	tell(&p, "{\"method\":\"A.fter\"}");
	await_told(&p, &p.events, 1);
	json_decref(message);
	close_peer(&p);
}

static void deep(void)
{
	struct peer p;
	struct caller c;
	char nest[200];
	memset(nest, '[', sizeof nest - 1);
	nest[sizeof nest - 1] = 0;
	open_peer(&p);
	begin(&c, &p, "S", "A.deep");
	json_t *message = hear(&p);
	auto_free char *text =
		xasprintf("{\"id\":%lld,\"result\":{\"is\":%s", (long long)id_of(message), nest);
	tell(&p, text);
	(void)end(&c, "is");
	CHECK(!c.result && c.err.code == ERR_TOO_LARGE);
	json_decref(message);
	close_peer(&p);
}

static void ends(void)
{
	struct peer p;
	struct caller c;
	const struct wait wait = seconds(20);
	struct err err = { 0 };
	open_peer(&p);
	begin(&c, &p, NULL, "A.b");
	json_decref(hear(&p));
	say(&p, "{\"id\":1,\"resu", 13);
	shut(&p.out[1]);
	(void)end(&c, "is");
	CHECK(!c.result && c.err.code == ERR_UNAVAILABLE);
	await_told(&p, &p.lost, 1);
	CHECK(cdp_ask(p.cdp, NULL, "A.c", NULL, &wait, &err) < 0 && err.code == ERR_UNAVAILABLE);
	CHECK(cdp_post(p.cdp, NULL, "A.c", NULL) < 0);
	close_peer(&p);
	CHECK(atomic_load(&p.lost) == 1);
}

/* It hangs: calls fail, posts are bounded, and nobody is ever blocked. */
static void stuck(void)
{
	enum { SIZE = 4 << 20 };
	struct peer p;
	struct err err = { 0 };
	auto_free char *large = xmalloc(SIZE + 1);
	memset(large, 'x', SIZE);
	large[SIZE] = 0;
	open_peer(&p);
	int posted = 0;
	while (posted < 100 && cdp_post(p.cdp, "S", "A.b", json_pack("{s:s}", "x", large)) == 0)
		posted++;
	CHECK(posted > 10 && posted < 30);
	await_told(&p, &p.lost, 1);
	const struct wait wait = seconds(20);
	CHECK(cdp_ask(p.cdp, NULL, "A.c", NULL, &wait, &err) < 0 && err.code == ERR_UNAVAILABLE);
	close_peer(&p);
}

static bool is_blocked(const char *method)
{
	return !strcmp(method, "Runtime.evaluate");
}

static void held(void)
{
	struct peer p;
	struct caller blocked, free_call;
	struct err why, err = { 0 };
	const struct wait wait = seconds(20);
	err_set(&why, ERR_CONFLICT, "a dialog is open");
	open_peer(&p);
	begin(&blocked, &p, "S", "Runtime.evaluate");
	json_decref(hear(&p));
	begin(&free_call, &p, "S", "Page.handleJavaScriptDialog");
	json_t *message = hear(&p);
	cdp_hold(p.cdp, "S", is_blocked, &why);
	(void)end(&blocked, "is");
	CHECK_STR(blocked.err.msg, "a dialog is open");
	CHECK(cdp_ask(p.cdp, "S", "Runtime.evaluate", NULL, &wait, &err) < 0);
	CHECK_STR(err.msg, "a dialog is open");
	answer(&p, id_of(message), "done");
	CHECK_STR(end(&free_call, "is"), "done");
	json_decref(free_call.result);
	json_decref(message);
	cdp_release(p.cdp, "S");
	begin(&blocked, &p, "S", "Runtime.evaluate");
	json_decref(hear(&p));
	err_set(&why, ERR_CONFLICT, "closed");
	cdp_cut(p.cdp, "other", &why);
	cdp_cut(p.cdp, "S", &why);
	(void)end(&blocked, "is");
	CHECK_STR(blocked.err.msg, "closed");
	cdp_hold(p.cdp, "T", NULL, &why);
	CHECK(cdp_ask(p.cdp, "T", "Any.thing", NULL, &wait, &err) < 0);
	close_peer(&p);
}

static void peeks(void)
{
	CHECK(cdp_message_peek("{\"id\":12,\"result\"", 17) == 12);
	CHECK(cdp_message_peek("{\"id\":12}", 9) == 12);
	CHECK(cdp_message_peek("{\"id\":12", 8) == 0);
	CHECK(cdp_message_peek("{\"id\":", 6) == 0);
	CHECK(cdp_message_peek("{\"method\":\"x\"}", 14) == 0);
	CHECK(cdp_message_peek("{\"id\":1234567890123456789012,", 29) == 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	answers();
	refusals();
	events();
	huge();
	deep();
	ends();
	stuck();
	held();
	peeks();
	return tap_done();
}
