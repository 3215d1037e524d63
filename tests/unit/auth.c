#include "net/auth.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <time.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "tap.h"

/* --- helpers -------------------------------------------------------------------------------- */

static struct auth *make(struct auth_config config)
{
	struct err err = { 0 };
	struct auth *auth = auth_new(&config, &err);
	if (!auth)
		printf("# %s\n", err.msg);
	return auth;
}

/* Why a request is refused; "" for one that is not. */
static const char *why(const struct auth *auth, struct auth_request request)
{
	static struct err err;
	err = (struct err){ 0 };
	if (auth_check(auth, &request, NULL) != auth_check(auth, &request, &err))
		return "not the same answer twice";
	return err.code && err.code != ERR_UNAUTHORIZED ? "not a 401" : err.msg;
}

#define HEADER(value) ((struct auth_request){ .api_key_header = (value) })
#define BEARER(value) ((struct auth_request){ .authorization = (value) })
#define QUERY(value)  ((struct auth_request){ .query = (value) })

static bool is_forbidden(const struct auth *auth, struct auth_request request)
{
	struct err err = { 0 };
	return auth_check(auth, &request, &err) == -1 && err.code == ERR_FORBIDDEN;
}

static const char nothing[] =
	"no credentials: send X-AIO-API-Key, Authorization: Bearer or ?api_key= "
	"with the API key, or ?ticket=";
static const char wrong_header[] = "wrong API key in X-AIO-API-Key";
static const char wrong_bearer[] = "wrong API key in Authorization: Bearer";
static const char wrong_query[] = "wrong API key in ?api_key=";

static char *ticket_query(const struct auth *auth)
{
	char ticket[AUTH_TICKET_ROOM];
	int expires_in = 0;
	return auth_ticket(auth, AUTH_ALL, ticket, sizeof ticket, &expires_in) == 0 &&
			       expires_in > 0
		       ? xasprintf("ticket=%s", ticket)
		       : xstrdup("none");
}

static char *public_text(EVP_PKEY *pkey)
{
	BIO *bio = BIO_new(BIO_s_mem());
	PEM_write_bio_PUBKEY(bio, pkey);
	char *pem;
	long len = BIO_get_mem_data(bio, &pem);
	struct buf text = BUF(4096);
	(void)base64_encode(&text, pem, (size_t)len);
	BIO_free(bio);
	return text.data;
}

static char *bearer_jwt(EVP_PKEY *pkey, const char *payload)
{
	auto_buf struct buf text = BUF(4096);
	(void)base64url_encode(&text, "{\"alg\":\"EdDSA\"}", 15);
	(void)buf_str(&text, ".");
	(void)base64url_encode(&text, payload, strlen(payload));
	unsigned char sig[64];
	size_t len = sizeof sig;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_DigestSignInit(ctx, NULL, NULL, NULL, pkey);
	EVP_DigestSign(ctx, sig, &len, (unsigned char *)text.data, text.len);
	EVP_MD_CTX_free(ctx);
	(void)buf_str(&text, ".");
	(void)base64url_encode(&text, sig, len);
	return xasprintf("Bearer %s", text.data);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_open(void)
{
	struct auth *auth = make((struct auth_config){ .api_key = "", .jwt_public_key = "" });
	CHECK(auth && !auth_enabled(auth));
	CHECK_STR(why(auth, (struct auth_request){ 0 }), "");
	CHECK_STR(why(auth, BEARER("Bearer whatever")), "");
	CHECK_STR(why(auth, QUERY("ticket=stale&api_key=x")), "");
	auth_free(auth);
	auth_free(NULL);
}

static bool misconfigured(struct auth_config config, const char *words)
{
	struct err err = { 0 };
	struct auth *auth = auth_new(&config, &err);
	bool ok = !auth && strstr(err.msg, words);
	if (!ok)
		printf("# '%s' instead of '%s'\n", err.msg, words);
	auth_free(auth);
	return ok;
}

static void test_config(void)
{
	CHECK(misconfigured((struct auth_config){ .jwt_public_key = "?" },
			    "JWT_PUBLIC_KEY: neither"));
	CHECK(misconfigured((struct auth_config){ .jwt_public_key = " " },
			    "JWT_PUBLIC_KEY: neither"));
	/* What is set but blank must not open the server. */
	CHECK(misconfigured((struct auth_config){ .api_key = " \n" }, "SANDBOX_API_KEY is blank"));
	CHECK(misconfigured((struct auth_config){ .auth_token = "\n" }, "AUTH_TOKEN is blank"));
	CHECK(misconfigured((struct auth_config){ .ticket_ttl = -1 }, "TICKET_TTL_SECONDS"));
	auto_free char *huge = xasprintf("%0*d", 9000, 0);
	CHECK(misconfigured((struct auth_config){ .api_key = huge }, "SANDBOX_API_KEY is longer"));
}

static void test_key_ways(const struct auth *auth, const char *key)
{
	auto_free char *bearer = xasprintf("Bearer %s", key);
	auto_free char *lower = xasprintf("bearer  \t%s ", key);
	auto_free char *upper = xasprintf(" BEARER %s", key);
	auto_buf struct buf encoded = BUF(4096);
	(void)url_encode(&encoded, key);
	auto_free char *query = xasprintf("api_key=%s", encoded.data);
	auto_free char *among = xasprintf("a=1&&%%61pi%%5Fkey=%s&b", encoded.data);
	CHECK_STR(why(auth, HEADER(key)), "");
	CHECK_STR(why(auth, BEARER(bearer)), "");
	CHECK_STR(why(auth, BEARER(lower)), "");
	CHECK_STR(why(auth, BEARER(upper)), "");
	CHECK_STR(why(auth, QUERY(query)), "");
	CHECK_STR(why(auth, QUERY(among)), "");
}

static void test_near_misses(const struct auth *auth, const char *key)
{
	size_t len = strlen(key);
	bool refused = true;
	for (size_t i = 0; i < len; i++) {
		auto_free char *other = xstrdup(key);
		other[i] ^= 1;
		refused &= !strcmp(why(auth, HEADER(other)), wrong_header);
		other[i] = 0;
		refused &= !strcmp(why(auth, HEADER(other)), wrong_header) || i == 0;
		auto_free char *bearer = xasprintf("Bearer %s%c", other, key[i] ^ 32);
		refused &= !strcmp(why(auth, BEARER(bearer)), wrong_bearer);
		auto_free char *query = xasprintf("api_key=%s%%00", key);
		refused &= !strcmp(why(auth, QUERY(query)), wrong_query);
	}
	CHECK(refused);
	auto_free char *longer = xasprintf("%sx", key), *twice = xasprintf("%s,%s", key, key);
	CHECK_STR(why(auth, HEADER(longer)), wrong_header);
	CHECK_STR(why(auth, HEADER(twice)), wrong_header);
}

static void test_shared_keys(void)
{
	struct auth *auth =
		make((struct auth_config){ .api_key = "s3cret+/ key=&%", .auth_token = "tok.en" });
	CHECK(auth_enabled(auth));
	test_key_ways(auth, "s3cret+/ key=&%");
	test_key_ways(auth, "tok.en");
	test_near_misses(auth, "s3cret+/ key=&%");
	test_near_misses(auth, "tok.en");

	CHECK_STR(why(auth, BEARER("s3cret+/ key=&%")),
		  "the scheme of Authorization must be Bearer");
	CHECK_STR(why(auth, BEARER("Basic dG9rLmVu")),
		  "the scheme of Authorization must be Bearer");
	CHECK_STR(why(auth, BEARER("Bearertok.en")), "the scheme of Authorization must be Bearer");
	CHECK_STR(why(auth, BEARER("Bearer")), "Authorization: Bearer without a token");
	CHECK_STR(why(auth, BEARER("Bearer  ")), "Authorization: Bearer without a token");
	CHECK_STR(why(auth, QUERY("api_key=")), wrong_query);
	CHECK_STR(why(auth, QUERY("api_key")), wrong_query);
	auto_free char *huge = xasprintf("api_key=%0*d", 100000, 0);
	CHECK_STR(why(auth, QUERY(huge)), wrong_query);

	/* Without any, the message names the ways; other parameters and empty headers are none. */
	CHECK_STR(why(auth, (struct auth_request){ 0 }), nothing);
	CHECK_STR(why(auth, (struct auth_request){ "", " ", "" }), nothing);
	CHECK_STR(why(auth, QUERY("key=tok.en&API_KEY=tok.en&api_key2=tok.en&xticket=1")), nothing);

	/* Any valid one suffices, wherever it stands; else the last reason is told. */
	CHECK_STR(why(auth,
		      (struct auth_request){ "Basic eDp5", "no", "api_key=no&api_key=tok.en" }),
		  "");
	CHECK_STR(why(auth, (struct auth_request){ "Bearer no", "tok.en", "ticket=no" }), "");
	CHECK_STR(why(auth, (struct auth_request){ "Bearer tok.en", "no", "ticket=no" }), "");
	CHECK_STR(why(auth, (struct auth_request){ "Bearer no", "no", "ticket=no" }),
		  "malformed ticket");
	auth_free(auth);
}

static void test_key_texts(void)
{
	/* From a file, with a line feed; from base64, with a plus that a client did not encode. */
	struct auth *auth = make((struct auth_config){ .api_key = "\tab+c/d==\r\n" });
	CHECK_STR(why(auth, HEADER("ab+c/d==")), "");
	CHECK_STR(why(auth, QUERY("api_key=ab+c/d==")), "");
	CHECK_STR(why(auth, QUERY("api_key=ab%2Bc%2fd%3d%3D")), "");
	CHECK_STR(why(auth, QUERY("api_key=ab%2Bc%2fd%3d")), wrong_query);
	auth_free(auth);

	auth = make((struct auth_config){ .auth_token = "only" });
	CHECK(auth_enabled(auth));
	CHECK_STR(why(auth, HEADER("only")), "");
	CHECK_STR(why(auth, HEADER("")), nothing);
	auth_free(auth);
}

static void test_jwt(void)
{
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	auto_free char *text = public_text(pkey);
	auto_free char *good = bearer_jwt(pkey, "{\"exp\":99999999999}");
	auto_free char *old = bearer_jwt(pkey, "{\"exp\":1}");
	auto_free char *aimed = bearer_jwt(pkey, "{\"aud\":\"box-1\"}");
	auto_free char *in_query = xasprintf("api_key=%s", good + 7);

	struct auth *auth = make((struct auth_config){ .jwt_public_key = text });
	CHECK(auth_enabled(auth));
	CHECK_STR(why(auth, BEARER(good)), "");
	CHECK_STR(why(auth, BEARER(aimed)), "");
	CHECK_STR(why(auth, BEARER(old)), "the token has expired");
	CHECK_STR(why(auth, BEARER("Bearer x")),
		  "malformed token: not three parts with dots between");
	CHECK_STR(why(auth, HEADER(good + 7)), wrong_header);
	CHECK_STR(why(auth, QUERY(in_query)), wrong_query);
	CHECK_STR(why(auth, HEADER(text)), wrong_header);
	CHECK_STR(why(auth, (struct auth_request){ 0 }),
		  "no credentials: send Authorization: Bearer with a JWT, or ?ticket=");
	auth_free(auth);

	auth = make((struct auth_config){
		.jwt_public_key = text, .jwt_audience = "box-1", .api_key = "k" });
	CHECK_STR(why(auth, BEARER(aimed)), "");
	CHECK_STR(why(auth, BEARER(good)), "the token is for another audience");
	CHECK_STR(why(auth, BEARER("Bearer k")), "");
	CHECK_STR(why(auth, BEARER("Bearer x")), wrong_bearer);
	CHECK_STR(why(auth, BEARER("Bearer a.b")),
		  "malformed token: not three parts with dots between");
	CHECK_STR(why(auth, (struct auth_request){ old, "k", NULL }), "");
	CHECK_STR(
		why(auth, (struct auth_request){ 0 }),
		"no credentials: send Authorization: Bearer with a JWT or the API key, X-AIO-API-Key or "
		"?api_key=, or ?ticket=");
	auth_free(auth);
	EVP_PKEY_free(pkey);
}

static void test_ticket_tampering(const struct auth *auth)
{
	static const char wrong[] = "wrong ticket: this server did not make it";
	auto_free char *query = ticket_query(auth);
	size_t len = strlen(query);
	bool refused = true;
	for (size_t i = strlen("ticket="); i < len; i++) {
		char was = query[i];
		query[i] = was == 'A' ? 'E' : 'A';
		const char *reason = why(auth, QUERY(query));
		refused &= !strcmp(reason, wrong) ||
			   (i == len - 1 && !strcmp(reason, "malformed ticket"));
		query[i] = '=';
		refused &= !strcmp(why(auth, QUERY(query)), "malformed ticket");
		query[i] = 0;
		refused &= !strcmp(why(auth, QUERY(query)), "malformed ticket");
		query[i] = was;
	}
	CHECK(refused);
	auto_free char *longer = xasprintf("%sA", query), *nul = xasprintf("%s%%00", query);
	CHECK_STR(why(auth, QUERY(longer)), "malformed ticket");
	CHECK_STR(why(auth, QUERY(nul)), "malformed ticket");
	CHECK_STR(why(auth, QUERY(query)), "");
}

static void test_tickets(void)
{
	struct auth *auth = make((struct auth_config){ .api_key = "k" });
	struct auth *other = make((struct auth_config){ .api_key = "k" });
	char one[AUTH_TICKET_ROOM], two[AUTH_TICKET_ROOM];
	int expires_in = 0;
	CHECK(auth_ticket(auth, AUTH_ALL, one, sizeof one, &expires_in) == 0 && expires_in == 30);
	CHECK(auth_ticket(auth, AUTH_ALL, two, sizeof two, &expires_in) == 0 &&
	      strcmp(one, two) != 0);
	CHECK(strlen(one) == AUTH_TICKET_ROOM - 1);
	CHECK(strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
	      strlen(one));
	CHECK(auth_ticket(auth, AUTH_ALL, two, sizeof two - 1, &expires_in) == -1);

	auto_free char *query = xasprintf("path=x%%3Fticket%%3Dy&ticket=%s", one);
	auto_free char *spare = xasprintf("ticket=stale&%s", query);
	for (int i = 0; i < 3; i++)
		CHECK_STR(why(auth, QUERY(query)), "");
	CHECK_STR(why(auth, QUERY(spare)), "");
	CHECK_STR(why(other, QUERY(query)), "wrong ticket: this server did not make it");
	CHECK_STR(why(auth, QUERY("ticket=")), "malformed ticket");
	CHECK_STR(why(auth, QUERY("path=websockify%3Fticket%3Dx")), nothing);
	/* It is no API key, no JWT, and not enough to get another. */
	CHECK_STR(why(auth, HEADER(one)), wrong_header);
	char guest[AUTH_TICKET_ROOM];
	CHECK(auth_guest_ticket(auth, guest, sizeof guest) == 0);
	auto_free char *by_guest = xasprintf("ticket=%s", guest);
	struct auth_request to_guest = { .query = by_guest, .guest = true };
	CHECK_STR(why(auth, to_guest), "");
	CHECK_STR(why(auth, QUERY(by_guest)), "this ticket is for the pages of programs only");
	CHECK_STR(why(auth, ((struct auth_request){ .query = query, .guest = true })), "");
	CHECK(auth_cookie_check(auth, guest) == -1);
	to_guest.no_ticket = true;
	CHECK_STR(why(auth, to_guest), "a ticket is not enough here");

	char view[AUTH_TICKET_ROOM], cookie[AUTH_TICKET_ROOM];
	CHECK(auth_ticket(auth, AUTH_VIEW, view, sizeof view, &expires_in) == 0 &&
	      expires_in == 30);
	auto_free char *by_view = xasprintf("ticket=%s", view);
	auto_free char *by_both = xasprintf("ticket=%s&ticket=%s&ticket=wrong", view, one);
	auto_free char *by_wrong = xasprintf("ticket=wrong&ticket=%s&api_key=wrong", view);
	CHECK(is_forbidden(auth, QUERY(by_view)));
	CHECK(is_forbidden(auth, ((struct auth_request){ .query = by_view, .guest = true })));
	CHECK(is_forbidden(auth, ((struct auth_request){ .query = by_view, .no_ticket = true })));
	struct auth_request looks = { .query = by_view, .view = true };
	CHECK(auth_check(auth, &looks, NULL) == AUTH_VIEW);
	CHECK(auth_check(other, &looks, NULL) == -1);
	looks.query = by_wrong;
	CHECK(auth_check(auth, &looks, NULL) == AUTH_VIEW);
	looks.query = by_both;
	CHECK(auth_check(auth, &looks, NULL) == AUTH_ALL);
	looks = (struct auth_request){ .query = by_view, .api_key_header = "k", .view = true };
	CHECK(auth_check(auth, &looks, NULL) == AUTH_ALL);
	CHECK(auth_cookie_check(auth, view) == -1);
	CHECK(auth_cookie(auth, AUTH_VIEW, cookie, sizeof cookie) == 0);
	CHECK(auth_cookie_check(auth, cookie) == AUTH_VIEW &&
	      auth_cookie_check(other, cookie) == -1);
	CHECK(auth_cookie(auth, AUTH_ALL, cookie, sizeof cookie) == 0);
	CHECK(auth_cookie_check(auth, cookie) == AUTH_ALL);

	struct auth_request renew = { .query = query, .no_ticket = true };
	CHECK_STR(why(auth, renew), "a ticket is not enough here");
	renew.api_key_header = "k";
	CHECK_STR(why(auth, renew), "");
	test_ticket_tampering(auth);
	auth_free(auth);
	auth_free(other);
}

/* Gets a ticket that is good for a second and tries it, all within that second. */
static char *try_fresh(const struct auth *auth)
{
	for (int i = 0; i < 10; i++) {
		int64_t start = clock_ms();
		auto_free char *query = ticket_query(auth);
		const char *said = why(auth, QUERY(query));
		if (clock_ms() - start >= 1000)
			continue;
		CHECK_STR(said, "");
		return TAKE(query);
	}
	CHECK(false);
	return NULL;
}

static void test_ticket_expiry(void)
{
	struct auth *auth = make((struct auth_config){ .api_key = "k", .ticket_ttl = 1 });
	auto_free char *query = try_fresh(auth);
	nanosleep(&(struct timespec){ 1, 10000000 }, NULL);
	CHECK_STR(why(auth, QUERY(query)), "ticket expired: get another");
	auto_free char *fresh = try_fresh(auth);
	auth_free(auth);

	auth = make((struct auth_config){ .api_key = "k", .ticket_ttl = __INT_MAX__ });
	auto_free char *lasting = ticket_query(auth);
	CHECK_STR(why(auth, QUERY(lasting)), "");
	auth_free(auth);
}

static void *check_often(void *arg)
{
	const struct auth *auth = arg;
	for (int i = 0; i < 200; i++) {
		auto_free char *query = ticket_query(auth);
		struct auth_request good = { .query = query },
				    bad = { .query = query, .no_ticket = true };
		if (auth_check(auth, &good, NULL) != 0 || auth_check(auth, &bad, NULL) == 0)
			return arg;
		bad = BEARER("Bearer nearly");
		good = BEARER("Bearer k");
		if (auth_check(auth, &good, NULL) != 0 || auth_check(auth, &bad, NULL) == 0)
			return arg;
	}
	return NULL;
}

static void test_threads(void)
{
	struct auth *auth = make((struct auth_config){ .api_key = "k" });
	pthread_t threads[4];
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_create(&threads[i], NULL, check_often, auth);
	for (size_t i = 0; i < COUNT(threads); i++) {
		void *failed = auth;
		pthread_join(threads[i], &failed);
		CHECK(!failed);
	}
	auth_free(auth);
}

static void test_redact(void)
{
	static const struct {
		const char *target, *want;
	} rows[] = {
		{ "", "" },
		{ "/", "/" },
		{ "/v1/shell/exec", "/v1/shell/exec" },
		{ "/v1/file/list?path=%2Ftmp&depth=2", "/v1/file/list?path=%2Ftmp&depth=2" },
		{ "/x?", "/x?" },
		{ "/x?&&", "/x?&&" },
		{ "/x?a=100%&b=%zz&c=%", "/x?a=100%&b=%zz&c=%" },
		{ "/x?api_key=hunter2", "/x?api_key=***" },
		{ "/x?ticket=abcdef&a=1", "/x?ticket=***&a=1" },
		{ "/x?a=1&ticket=abcdef&b=2&api_key=hunter2&c",
		  "/x?a=1&ticket=***&b=2&api_key=***&c" },
		{ "/x?ticket=abcdef&ticket=ghijkl", "/x?ticket=***&ticket=***" },
		{ "/x?token=abcdef", "/x?token=***" },
		{ "/x?api_key=", "/x?api_key=" },
		{ "/x?api_key=k&a=1", "/x?api_key=*&a=1" },
		{ "/x?api_key", "/x?api_key" },
		{ "/x?API_Key=hunter2", "/x?API_Key=***" },
		{ "/x?%61pi%5fkey=hunter2&a=1", "/x?%61pi%5fkey=***&a=1" },
		{ "/x?%74%69%63%6b%65%74=abcdef", "/x?%74%69%63%6b%65%74=***" },
		{ "/x?%2574icket=abcdef", "/x?%2574icket=***" },
		{ "/x?api_key=hun=ter;2?3#4/5&a=1", "/x?api_key=***&a=1" },
		{ "/x?ticket%3Dabcdef", "/x?***" },
		{ "/vnc/index.html?ticket=abcdef&path=websockify%3Fticket%3Dabcdef&x=1",
		  "/vnc/index.html?ticket=***&path=***&x=1" },
		{ "/x?next=%252Fvnc%253Fa%253D1%2526ticket%253Dabcdef", "/x?next=***" },
		{ "/x?next=/vnc?ticket=abcdef", "/x?next=***" },
		{ "/x%3Fticket=abcdef", "/x%3Fticket=***" },
		{ "/x&ticket=abcdef?a=1", "/x&ticket=***?a=1" },
		{ "http://h/x?api_key=hunter2", "http://h/x?api_key=***" },
		{ "/x?deep=%25252525252574icket", "/x?deep=***" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		auto_free char *text = xstrdup(rows[i].target);
		auth_redact(text);
		CHECK_STR(text, rows[i].want);
	}
}

int main(void)
{
	test_threads();
	test_open();
	test_config();
	test_shared_keys();
	test_key_texts();
	test_jwt();
	test_tickets();
	test_ticket_expiry();
	test_redact();
	return tap_done();
}
