#include "base/jwt.h"

#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"

enum { KEY_TEXT_MAX = 65536, RSA_BITS_MIN = 2048, P256_BYTES = 32, P256_DER_MAX = 72 };

struct jwt_alg {
	const char *name;
	int key_type;
	const char *digest;
	bool raw_ecdsa; /* the signature is r and s side by side; OpenSSL wants DER */
};

static const struct jwt_alg algs[] = {
	{ "RS256", EVP_PKEY_RSA, "SHA256", false },
	{ "ES256", EVP_PKEY_EC, "SHA256", true },
	{ "EdDSA", EVP_PKEY_ED25519, NULL, false },
};

struct jwt_key {
	EVP_PKEY *pkey;
	const struct jwt_alg *alg;
};

/* Without one OpenSSL would ask for the password of an encrypted PEM at the terminal. */
static int no_password(char *to, int room, int writing, void *arg)
{
	(void)to, (void)room, (void)writing, (void)arg;
	return -1;
}

static EVP_PKEY *pem_read(const char *pem, size_t len)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	if (!bio)
		return NULL;
	EVP_PKEY *pkey = NULL;
	if (memmem(pem, len, "-----BEGIN CERTIFICATE-----", 27)) {
		X509 *cert = PEM_read_bio_X509(bio, NULL, no_password, NULL);
		pkey = X509_get_pubkey(cert);
		X509_free(cert);
	} else {
		pkey = PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
	}
	BIO_free(bio);
	ERR_clear_error();
	return pkey;
}

static int key_check(struct jwt_key *key, struct err *err)
{
	for (size_t i = 0; i < COUNT(algs); i++)
		if (EVP_PKEY_get_base_id(key->pkey) == algs[i].key_type)
			key->alg = &algs[i];
	if (!key->alg)
		return err_set(err, ERR_INVALID, "the key is not RSA, EC P-256 or Ed25519");
	int bits = EVP_PKEY_get_bits(key->pkey);
	if (key->alg->key_type == EVP_PKEY_RSA && bits < RSA_BITS_MIN)
		return err_set(err, ERR_INVALID, "an RSA key of %d bits is too weak: at least %d",
			       bits, RSA_BITS_MIN);
	char group[64] = "";
	if (key->alg->key_type == EVP_PKEY_EC &&
	    (!EVP_PKEY_get_group_name(key->pkey, group, sizeof group, NULL) ||
	     strcmp(group, "prime256v1") != 0))
		return err_set(err, ERR_INVALID, "an EC key must be on the curve P-256");
	return 0;
}

struct jwt_key *jwt_key_load(const char *text, struct err *err)
{
	static const char begin[] = "-----BEGIN ";
	auto_buf struct buf pem = BUF(KEY_TEXT_MAX);
	int got = strstr(text, begin) ? buf_str(&pem, text)
				      : base64_decode(&pem, text, strlen(text));
	if (got < 0 || !pem.len || !memmem(pem.data, pem.len, begin, sizeof begin - 1)) {
		err_set(err, ERR_INVALID, "neither a PEM public key nor the base64 of one");
		return NULL;
	}
	if (memmem(pem.data, pem.len, "PRIVATE KEY-----", 16)) {
		err_set(err, ERR_INVALID, "this is a private key: give the public one only");
		return NULL;
	}
	struct jwt_key *key = xcalloc(1, sizeof *key);
	key->pkey = pem_read(pem.data, pem.len);
	if (!key->pkey)
		err_set(err, ERR_INVALID, "the PEM text holds no readable public key");
	if (!key->pkey || key_check(key, err) < 0) {
		jwt_key_free(key);
		return NULL;
	}
	return key;
}

void jwt_key_free(struct jwt_key *key)
{
	if (!key)
		return;
	EVP_PKEY_free(key->pkey);
	free(key);
}

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_UNAUTHORIZED, "%s", why);
}

/* One part of the token as a JSON object; NULL for anything else. */
static json_t *part_object(const char *text, size_t len)
{
	auto_buf struct buf plain = BUF(JWT_MAX);
	if (base64url_decode(&plain, text, len) < 0 || !plain.len)
		return NULL;
	json_t *json = json_parse(plain.data, plain.len, NULL);
	if (json_is_object(json))
		return json;
	json_decref(json);
	return NULL;
}

/* A string with a NUL inside equals no C string. */
static bool string_is(const json_t *json, const char *text)
{
	size_t len = strlen(text);
	return json_is_string(json) && json_string_length(json) == len &&
	       memcmp(json_string_value(json), text, len) == 0;
}

static int header_check(const struct jwt_key *key, const json_t *header, struct err *err)
{
	if (!header)
		return refuse(err, "malformed token: its header is not a JSON object");
	if (!string_is(json_object_get(header, "alg"), key->alg->name))
		return err_set(err, ERR_UNAUTHORIZED,
			       "the token's algorithm is not allowed: only %s is", key->alg->name);
	if (json_object_get(header, "crit"))
		return refuse(err, "the token needs extensions (crit) that are not supported");
	return 0;
}

/* Turns r and s into DER. The length written, or -1 for a signature that cannot be one. */
static int der_from_raw(const unsigned char *raw, size_t len, unsigned char der[P256_DER_MAX])
{
	if (len != 2 * P256_BYTES)
		return -1;
	ECDSA_SIG *sig = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw, P256_BYTES, NULL);
	BIGNUM *s = BN_bin2bn(raw + P256_BYTES, P256_BYTES, NULL);
	int n = -1;
	if (sig && r && s && ECDSA_SIG_set0(sig, r, s)) {
		r = s = NULL;
		n = i2d_ECDSA_SIG(sig, &der);
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(sig);
	return n;
}

static bool signature_ok(const struct jwt_key *key, const char *text, size_t text_len,
			 const unsigned char *sig, size_t sig_len)
{
	unsigned char der[P256_DER_MAX];
	if (key->alg->raw_ecdsa) {
		int n = der_from_raw(sig, sig_len, der);
		if (n < 0)
			return false;
		sig = der;
		sig_len = (size_t)n;
	}
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const char *md = key->alg->digest;
	bool ok = ctx && EVP_DigestVerifyInit_ex(ctx, NULL, md, NULL, NULL, key->pkey, NULL) == 1 &&
		  EVP_DigestVerify(ctx, sig, sig_len, (const unsigned char *)text, text_len) == 1;
	EVP_MD_CTX_free(ctx);
	/* The queue belongs to the thread, and others look at it too. */
	ERR_clear_error();
	return ok;
}

/* Reads a claim that is a time. 1, 0 where it is absent, -1 where it is something else. */
static int claim_time(const json_t *claims, const char *name, double *ret)
{
	const json_t *json = json_object_get(claims, name);
	if (json && !json_is_number(json))
		return -1;
	if (json)
		*ret = json_number_value(json);
	return json != NULL;
}

static bool audience_ok(const json_t *aud, const char *audience)
{
	for (size_t i = 0; i < json_array_size(aud); i++)
		if (string_is(json_array_get(aud, i), audience))
			return true;
	return string_is(aud, audience);
}

static int claims_check(const json_t *claims, const char *audience, time_t now, struct err *err)
{
	if (!claims)
		return refuse(err, "malformed token: its payload is not a JSON object");
	double exp = 0, nbf = 0, iat = 0;
	int has_exp = claim_time(claims, "exp", &exp);
	int has_nbf = claim_time(claims, "nbf", &nbf);
	int has_iat = claim_time(claims, "iat", &iat);
	if (has_exp < 0 || has_nbf < 0 || has_iat < 0)
		return refuse(err, "malformed token: exp, nbf and iat must be numbers");
	if (has_exp && (double)now >= exp)
		return refuse(err, "the token has expired");
	if (has_nbf && nbf > (double)now + JWT_LEEWAY_SEC)
		return refuse(err, "the token is not valid yet");
	if (has_iat && iat > (double)now + JWT_LEEWAY_SEC)
		return refuse(err, "the token was issued in the future");
	const json_t *aud = json_object_get(claims, "aud");
	if (audience && *audience == '?' && !aud)
		audience = NULL;
	if (audience && !audience_ok(aud, audience + (*audience == '?')))
		return refuse(err, "the token is for another audience");
	return 0;
}

/* The token's parts; its signature decoded. */
struct jwt_parts {
	const char *payload, *end; /* from the dot before it; of the payload */
	struct buf signature;
};

static int split(const char *token, size_t len, struct jwt_parts *ret, struct err *err)
{
	if (len > JWT_MAX)
		return err_set(err, ERR_UNAUTHORIZED, "the token is longer than %d bytes", JWT_MAX);
	const char *end = token + len;
	const char *payload = memchr(token, '.', len);
	const char *sig = payload ? memchr(payload + 1, '.', (size_t)(end - payload - 1)) : NULL;
	if (!sig || memchr(sig + 1, '.', (size_t)(end - sig - 1)))
		return refuse(err, "malformed token: not three parts with dots between");
	ret->payload = payload;
	ret->end = sig;
	if (base64url_decode(&ret->signature, sig + 1, (size_t)(end - sig - 1)) < 0)
		return refuse(err, "malformed token: its signature is not base64url");
	return 0;
}

static bool parts_signed(const struct jwt_key *key, const char *token,
			 const struct jwt_parts *parts)
{
	return signature_ok(key, token, (size_t)(parts->end - token),
			    (unsigned char *)parts->signature.data, parts->signature.len);
}

bool jwt_is_like(const char *token, size_t len)
{
	struct jwt_parts parts = { .signature = BUF(JWT_MAX) };
	bool like = split(token, len, &parts, NULL) == 0 && parts.signature.len >= 64;
	buf_done(&parts.signature);
	return like;
}

bool jwt_signed(const struct jwt_key *key, const char *token, size_t len)
{
	struct jwt_parts parts = { .signature = BUF(JWT_MAX) };
	bool ok = split(token, len, &parts, NULL) == 0 && parts_signed(key, token, &parts);
	buf_done(&parts.signature);
	return ok;
}

static int verify(const struct jwt_key *key, const char *token, const struct jwt_parts *parts,
		  const char *audience, time_t now, struct err *err)
{
	json_t *header = part_object(token, (size_t)(parts->payload - token));
	int bad = header_check(key, header, err);
	json_decref(header);
	if (bad)
		return -1;
	if (!parts_signed(key, token, parts))
		return refuse(err, "the token's signature is wrong");
	json_t *claims = part_object(parts->payload + 1, (size_t)(parts->end - parts->payload - 1));
	bad = claims_check(claims, audience, now, err);
	json_decref(claims);
	return bad;
}

int jwt_verify(const struct jwt_key *key, const char *token, size_t len, const char *audience,
	       time_t now, struct err *err)
{
	struct jwt_parts parts = { .signature = BUF(JWT_MAX) };
	int result = split(token, len, &parts, err);
	if (result == 0)
		result = verify(key, token, &parts, audience, now, err);
	buf_done(&parts.signature);
	return result;
}
