#define OPENSSL_SUPPRESS_DEPRECATED /* see mac() */
#include "net/auth.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jwt.h"
#include "base/own.h"
#include "base/url.h"

enum { MAC_SIZE = 32, NAME_MAX_LEN = 16, SECRET_MAX = 8192, REDACT_DEPTH = 4 };

struct auth_ticket {
	uint64_t expires_ms; /* big-endian, of this process's clock */
	unsigned char nonce[15];
	unsigned char scope;         /* enum auth_scope */
	unsigned char mac[MAC_SIZE]; /* of what is before it */
};
_Static_assert(sizeof(struct auth_ticket) == 56 && AUTH_TICKET_ROOM == (56 * 4 + 2) / 3 + 1,
	       "no gaps");

struct auth_secret {
	bool set;
	unsigned char mac[MAC_SIZE];
};

struct auth {
	struct jwt_key *jwt;
	char *jwt_audience;
	struct auth_secret api_key, auth_token;
	int ticket_ttl;
	unsigned char secret_key[MAC_SIZE], ticket_key[MAC_SIZE], guest_key[MAC_SIZE],
		cookie_key[MAC_SIZE];
};

/* One half of an HMAC: the hash of the key, padded, and of the text. */
static void hash(const unsigned char key[MAC_SIZE], unsigned char pad, const void *data, size_t len,
		 unsigned char ret[MAC_SIZE])
{
	unsigned char block[SHA256_CBLOCK];
	SHA256_CTX context;
	memset(block, pad, sizeof block);
	for (size_t i = 0; i < MAC_SIZE; i++)
		block[i] ^= key[i];
	SHA256_Init(&context);
	SHA256_Update(&context, block, sizeof block);
	SHA256_Update(&context, data, len);
	SHA256_Final(ret, &context);
}

/* HMAC-SHA256 (RFC 2104). Not HMAC(): it starts up all of libcrypto, which takes a box's server
 * longer than all else that it does to start. */
static void mac(const unsigned char key[MAC_SIZE], const void *data, size_t len,
		unsigned char ret[MAC_SIZE])
{
	unsigned char inner[MAC_SIZE];
	hash(key, 0x36, data, len, inner);
	hash(key, 0x5c, inner, sizeof inner, ret);
}

/* --- configuration -------------------------------------------------------------------------- */

static const char *trim(const char *text, size_t *ret_len)
{
	static const char blank[] = " \t\r\n";
	text += strspn(text, blank);
	size_t len = strlen(text);
	while (len && strchr(blank, text[len - 1]))
		len--;
	*ret_len = len;
	return text;
}

/* A key from a file often ends in a line feed, which no header could carry: ends are trimmed. */
static int secret_set(const struct auth *auth, struct auth_secret *secret, const char *text,
		      const char *name, struct err *err)
{
	if (!text || !*text)
		return 0;
	size_t len;
	text = trim(text, &len);
	if (!len)
		return err_set(err, ERR_INVALID, "%s is blank: set a key, or unset it", name);
	if (len > SECRET_MAX)
		return err_set(err, ERR_INVALID, "%s is longer than %d bytes", name, SECRET_MAX);
	mac(auth->secret_key, text, len, secret->mac);
	secret->set = true;
	return 0;
}

static int configure(struct auth *auth, const struct auth_config *config, struct err *err)
{
	if (getrandom(auth->secret_key, MAC_SIZE, 0) != MAC_SIZE ||
	    getrandom(auth->ticket_key, MAC_SIZE, 0) != MAC_SIZE ||
	    getrandom(auth->guest_key, MAC_SIZE, 0) != MAC_SIZE ||
	    getrandom(auth->cookie_key, MAC_SIZE, 0) != MAC_SIZE)
		return err_set(err, ERR_INTERNAL, "no randomness for the keys of tickets");
	if (config->ticket_ttl < 0)
		return err_set(err, ERR_INVALID, "TICKET_TTL_SECONDS is negative");
	auth->ticket_ttl = config->ticket_ttl ? config->ticket_ttl : AUTH_TICKET_TTL_SEC;
	if (config->jwt_audience && *config->jwt_audience)
		auth->jwt_audience = xstrdup(config->jwt_audience);
	struct err why;
	if (config->jwt_public_key && *config->jwt_public_key) {
		auth->jwt = jwt_key_load(config->jwt_public_key, &why);
		if (!auth->jwt)
			return err_set(err, why.code, "JWT_PUBLIC_KEY: %s", why.msg);
	}
	if (secret_set(auth, &auth->api_key, config->api_key, "SANDBOX_API_KEY", err) < 0)
		return -1;
	return secret_set(auth, &auth->auth_token, config->auth_token, "AUTH_TOKEN", err);
}

struct auth *auth_new(const struct auth_config *config, struct err *err)
{
	struct auth *auth = xcalloc(1, sizeof *auth);
	if (configure(auth, config, err) == 0)
		return auth;
	auth_free(auth);
	return NULL;
}

void auth_free(struct auth *auth)
{
	if (!auth)
		return;
	jwt_key_free(auth->jwt);
	free(auth->jwt_audience);
	OPENSSL_cleanse(auth, sizeof *auth);
	free(auth);
}

static bool has_secret(const struct auth *auth)
{
	return auth->api_key.set || auth->auth_token.set;
}

bool auth_enabled(const struct auth *auth)
{
	return auth->jwt || has_secret(auth);
}

/* --- tickets -------------------------------------------------------------------------------- */

static void ticket_mac(const unsigned char key[MAC_SIZE], const struct auth_ticket *ticket,
		       unsigned char ret[MAC_SIZE])
{
	mac(key, ticket, offsetof(struct auth_ticket, mac), ret);
}

static int ticket_new(const unsigned char key[MAC_SIZE], enum auth_scope scope, int ttl, char *ret,
		      size_t room)
{
	struct auth_ticket ticket = {
		.scope = (unsigned char)scope,
		.expires_ms = htobe64((uint64_t)(clock_ms() + (int64_t)ttl * 1000)),
	};
	if (room < AUTH_TICKET_ROOM ||
	    getrandom(ticket.nonce, sizeof ticket.nonce, 0) != sizeof ticket.nonce)
		return -1;
	ticket_mac(key, &ticket, ticket.mac);
	auto_buf struct buf text = BUF(AUTH_TICKET_ROOM);
	if (base64url_encode(&text, &ticket, sizeof ticket) < 0)
		return -1;
	memcpy(ret, text.data, text.len + 1);
	return 0;
}

/* Its scope, or -1. */
static int ticket_check(const unsigned char key[MAC_SIZE], const char *text, size_t len,
			struct err *err)
{
	struct auth_ticket ticket;
	unsigned char want[MAC_SIZE];
	auto_buf struct buf raw = BUF(AUTH_TICKET_ROOM);
	if (len != AUTH_TICKET_ROOM - 1 || base64url_decode(&raw, text, len) < 0 ||
	    raw.len != sizeof ticket)
		return err_set(err, ERR_UNAUTHORIZED, "malformed ticket");
	memcpy(&ticket, raw.data, sizeof ticket);
	ticket_mac(key, &ticket, want);
	if (CRYPTO_memcmp(want, ticket.mac, MAC_SIZE) != 0)
		return err_set(err, ERR_UNAUTHORIZED, "wrong ticket: this server did not make it");
	if (clock_ms() >= (int64_t)be64toh(ticket.expires_ms))
		return err_set(err, ERR_UNAUTHORIZED, "ticket expired: get another");
	return ticket.scope == AUTH_ALL || ticket.scope == AUTH_GUEST ? ticket.scope : AUTH_VIEW;
}

int auth_ticket(const struct auth *auth, enum auth_scope scope, char *ret, size_t room,
		int *ret_expires_in)
{
	*ret_expires_in = auth->ticket_ttl;
	return ticket_new(auth->ticket_key, scope, auth->ticket_ttl, ret, room);
}

int auth_guest_ticket(const struct auth *auth, char *ret, size_t room)
{
	return ticket_new(auth->guest_key, AUTH_ALL, auth->ticket_ttl, ret, room);
}

int auth_cookie(const struct auth *auth, enum auth_scope scope, char *ret, size_t room)
{
	return ticket_new(auth->cookie_key, scope, AUTH_COOKIE_TTL_SEC, ret, room);
}

int auth_cookie_check(const struct auth *auth, const char *text)
{
	return ticket_check(auth->cookie_key, text, strlen(text), NULL);
}

int auth_only_views(struct err *err)
{
	return err_set(err, ERR_FORBIDDEN,
		       "this ticket is for looking at the desktop only: open /vnc/index.html");
}

/* --- credentials ---------------------------------------------------------------------------- */

/* Compares MACs, never the texts: the time taken says nothing of a key, not even its length. */
static bool secret_ok(const struct auth *auth, const char *text, size_t len)
{
	unsigned char got[MAC_SIZE];
	mac(auth->secret_key, text, len, got);
	bool key = CRYPTO_memcmp(got, auth->api_key.mac, MAC_SIZE) == 0;
	bool token = CRYPTO_memcmp(got, auth->auth_token.mac, MAC_SIZE) == 0;
	return (auth->api_key.set & key) | (auth->auth_token.set & token);
}

static int wrong_key(struct err *err, const char *where)
{
	return err_set(err, ERR_UNAUTHORIZED, "wrong API key in %s", where);
}

/* These return ABSENT, or the scope of a valid credential, or -1 with the reason. */
enum { ABSENT = AUTH_GUEST + 1 };

static int check_header(const struct auth *auth, const char *value, struct err *err)
{
	size_t len = 0;
	if (value)
		value = trim(value, &len);
	if (!len)
		return ABSENT;
	return secret_ok(auth, value, len) ? 0 : wrong_key(err, "X-AIO-API-Key");
}

static int check_authorization(const struct auth *auth, const char *value, struct err *err)
{
	size_t len = 0;
	if (value)
		value = trim(value, &len);
	if (!len)
		return ABSENT;
	size_t scheme = strcspn(value, " \t");
	if (scheme != 6 || strncasecmp(value, "Bearer", 6) != 0)
		return err_set(err, ERR_UNAUTHORIZED, "the scheme of Authorization must be Bearer");
	const char *token = trim(value + scheme, &len);
	if (!len)
		return err_set(err, ERR_UNAUTHORIZED, "Authorization: Bearer without a token");
	if (secret_ok(auth, token, len))
		return 0;
	/* Where both are in use, only what looks like a JWT is told what is wrong with it as one. */
	if (auth->jwt && (!has_secret(auth) || memchr(token, '.', len)))
		return jwt_verify(auth->jwt, token, len, auth->jwt_audience, time(NULL), err);
	return wrong_key(err, "Authorization: Bearer");
}

static int check_query_key(const struct auth *auth, struct buf *value, struct err *err)
{
	if (value->len && secret_ok(auth, value->data, value->len))
		return 0;
	/* Keys are often base64, and their '+' often is not encoded. */
	for (size_t i = 0; i < value->len; i++)
		if (value->data[i] == ' ')
			value->data[i] = '+';
	if (value->len && secret_ok(auth, value->data, value->len))
		return 0;
	return wrong_key(err, "?api_key=");
}

static int check_query_ticket(const struct auth *auth, const struct auth_request *request,
			      const struct buf *value, struct err *err)
{
	const char *text = value->data ? value->data : "";
	bool guest = ticket_check(auth->guest_key, text, value->len, NULL) == 0;
	int scope = guest ? AUTH_ALL : ticket_check(auth->ticket_key, text, value->len, err);
	if (scope == AUTH_VIEW)
		return request->view ? AUTH_VIEW : auth_only_views(err);
	if (request->no_ticket)
		return err_set(err, ERR_UNAUTHORIZED, "a ticket is not enough here");
	if (!guest)
		return scope;
	return request->guest ? AUTH_ALL
			      : err_set(err, ERR_UNAUTHORIZED,
					"this ticket is for the pages of programs only");
}

static bool is_named(const struct buf *name, const char *text)
{
	return !name->full && name->len == strlen(text) && memcmp(name->data, text, name->len) == 0;
}

static int check_query(const struct auth *auth, const struct auth_request *request, struct err *err)
{
	auto_buf struct buf name = BUF(NAME_MAX_LEN), value = BUF(SECRET_MAX);
	struct url_query it = { request->query };
	int result = ABSENT;
	while (result != AUTH_ALL && url_query_next(&it, &name, &value)) {
		int before = result;
		if (is_named(&name, "api_key"))
			result = check_query_key(auth, &value, err);
		else if (is_named(&name, "ticket"))
			result = check_query_ticket(auth, request, &value, err);
		if (before == AUTH_VIEW && result != AUTH_ALL)
			result = AUTH_VIEW;
	}
	return result;
}

/* Where nobody needs a credential: a link that is for looking is that there, too. */
static int check_open(const struct auth *auth, const struct auth_request *request, struct err *err)
{
	struct err why = { 0 };
	int result = check_query(auth, request, &why);
	if (result == AUTH_VIEW)
		return AUTH_VIEW;
	return result < 0 && why.code == ERR_FORBIDDEN ? auth_only_views(err) : AUTH_ALL;
}

static int missing(const struct auth *auth, struct err *err)
{
	static const char *const ways[] = {
		[1] = "Authorization: Bearer with a JWT",
		[2] = "X-AIO-API-Key, Authorization: Bearer or ?api_key= with the API key",
		[3] = "Authorization: Bearer with a JWT or the API key, X-AIO-API-Key or ?api_key=",
	};
	return err_set(err, ERR_UNAUTHORIZED, "no credentials: send %s, or ?ticket=",
		       ways[(auth->jwt != NULL) + 2 * has_secret(auth)]);
}

int auth_check(const struct auth *auth, const struct auth_request *request, struct err *err)
{
	if (!auth_enabled(auth))
		return check_open(auth, request, err);
	/* Of several reasons the last is told: a wrong Authorization may be meant for a program that
	 * this server stands before, a ticket never is. */
	struct err why;
	int authorization = check_authorization(auth, request->authorization, &why);
	if (authorization == 0)
		return 0;
	int header = check_header(auth, request->api_key_header, &why);
	if (header == 0)
		return 0;
	int query = check_query(auth, request, &why);
	if (query == AUTH_ALL || query == AUTH_VIEW)
		return query;
	if (authorization == ABSENT && header == ABSENT && query == ABSENT)
		return missing(auth, err);
	if (err)
		*err = why;
	return -1;
}

bool auth_knows(const struct auth *auth, const char *text, size_t len)
{
	return len && ((has_secret(auth) && secret_ok(auth, text, len)) ||
		       (auth->jwt && jwt_is_like(text, len) && jwt_signed(auth->jwt, text, len)));
}

bool auth_any(const struct auth_request *request,
	      bool (*is)(void *arg, const char *text, size_t len), void *arg)
{
	size_t len = 0;
	const char *text = request->authorization ? trim(request->authorization, &len) : NULL;
	if (len > 7 && !strncasecmp(text, "Bearer ", 7)) {
		text = trim(text + 7, &len);
		if (is(arg, text, len))
			return true;
	}
	text = request->api_key_header ? trim(request->api_key_header, &len) : NULL;
	if (text && is(arg, text, len))
		return true;
	auto_buf struct buf name = BUF(NAME_MAX_LEN), value = BUF(SECRET_MAX);
	struct url_query it = { request->query };
	while (url_query_next(&it, &name, &value))
		if (is_named(&name, "api_key") && value.len && is(arg, value.data, value.len))
			return true;
	return false;
}

/* --- logs ----------------------------------------------------------------------------------- */

static bool is_secret(const struct buf *text)
{
	static const char *const names[] = { "api_key=", "ticket=", "token=" };
	for (size_t at = 0; at < text->len; at++)
		for (size_t i = 0; i < COUNT(names); i++)
			if (strncasecmp(text->data + at, names[i], strlen(names[i])) == 0)
				return true;
	return false;
}

/* The address of the desktop carries a ticket twice. */
bool auth_in_piece(const char *piece, size_t len)
{
	auto_buf struct buf text = BUF(len), next = BUF(len);
	(void)buf_add(&text, piece, len);
	for (int depth = 0; depth < REDACT_DEPTH; depth++) {
		if (is_secret(&text))
			return true;
		next.len = 0;
		if (url_query_decode(&next, text.data, text.len) < 0)
			return true;
		if (next.len == text.len)
			return false;
		struct buf swap = text;
		text = next;
		next = swap;
	}
	return true; /* encoded so often that reading it helps nobody */
}

void auth_redact(char *target)
{
	char *to = target;
	/* A '?' ends the path; after it only '&' ends a piece, as in url_query_next(). */
	const char *ends = "?";
	for (const char *at = target; *at; ends = "&") {
		size_t len = strcspn(at, ends), keep = len;
		if (len && auth_in_piece(at, len)) {
			const char *value = memchr(at, '=', len);
			keep = value ? (size_t)(value + 1 - at) : 0;
		}
		memmove(to, at, keep);
		to += keep;
		for (size_t i = keep; i < len && i < keep + 3; i++)
			*to++ = '*';
		at += len;
		if (*at)
			*to++ = *at++;
	}
	*to = 0;
}
