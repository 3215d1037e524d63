/* jwt.h - JSON Web Tokens (RFC 7519), checked against one public key.
 *
 * The type of the key decides the only algorithm it takes: RS256 for RSA, ES256 for EC P-256, EdDSA
 * for Ed25519. What a token says of itself chooses nothing, it only has to agree. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct err;
struct jwt_key;

enum {
	JWT_MAX = 16384,    /* longest token, in bytes */
	JWT_LEEWAY_SEC = 5, /* how far ahead the issuer's clock may be; none is given to "exp" */
};

/* Reads a PEM public key or certificate, or the base64 of one, however wrapped. NULL on failure;
 * free with jwt_key_free(). Any number of threads may use a key at once. */
struct jwt_key *jwt_key_load(const char *text, struct err *err);
void jwt_key_free(struct jwt_key *key); /* NULL is fine */

/* 0 for a token that the key's owner signed and that is valid now: "exp", "nbf" and "iat" hold
 * where present, and "aud" names the audience unless that is NULL; one written as "?name" also takes
 * tokens that name none. */
int jwt_verify(const struct jwt_key *key, const char *token, size_t len, const char *audience,
	       time_t now, struct err *err);

/* Whether a text has the form of a token: three parts, the last as long as a signature is. */
bool jwt_is_like(const char *token, size_t len);

/* Whether the key's owner signed the token, for whomever and whenever. */
bool jwt_signed(const struct jwt_key *key, const char *token, size_t len);
