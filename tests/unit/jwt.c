#include "base/jwt.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <pthread.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

#define NOW 1700000000

enum { RS, ES, ED, KEYS };
static EVP_PKEY *own[KEYS]; /* with the private half */
static struct jwt_key *keys[KEYS];
static const char *const headers[KEYS] = {
	"{\"alg\":\"RS256\",\"typ\":\"JWT\"}",
	"{\"alg\":\"ES256\"}",
	"{\"typ\":\"JWT\",\"alg\":\"EdDSA\"}",
};

/* --- keys ----------------------------------------------------------------------------------- */

static struct buf take_bio(BIO *bio)
{
	struct buf text = BUF(65536);
	char *data;
	long len = BIO_get_mem_data(bio, &data);
	(void)buf_add(&text, data, (size_t)len);
	BIO_free(bio);
	return text;
}

static struct buf pem_of(EVP_PKEY *pkey)
{
	BIO *bio = BIO_new(BIO_s_mem());
	PEM_write_bio_PUBKEY(bio, pkey);
	return take_bio(bio);
}

static struct jwt_key *load(EVP_PKEY *pkey, struct err *err)
{
	auto_buf struct buf pem = pem_of(pkey), text = BUF(65536);
	(void)base64_encode(&text, pem.data, pem.len);
	return jwt_key_load(text.data, err);
}

/* Whether loading fails with a message that holds these words. */
static bool unloadable(const char *text, const char *words)
{
	struct err err = { 0 };
	struct jwt_key *key = jwt_key_load(text, &err);
	bool ok = !key && err.code == ERR_INVALID && strstr(err.msg, words);
	if (!ok)
		printf("# '%s' instead of '%s'\n", err.msg, words);
	jwt_key_free(key);
	return ok;
}

static bool unloadable_key(EVP_PKEY *pkey, const char *words)
{
	auto_buf struct buf pem = pem_of(pkey);
	EVP_PKEY_free(pkey);
	return unloadable(pem.data, words);
}

/* --- tokens --------------------------------------------------------------------------------- */

static void raw_from_der(const unsigned char *der, size_t len, unsigned char raw[64])
{
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
	BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32);
	BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32);
	ECDSA_SIG_free(sig);
}

static void add_part(struct buf *to, const void *data, size_t len)
{
	if (to->len)
		(void)buf_str(to, ".");
	(void)base64url_encode(to, data, len);
}

/* A token signed by a key, whatever its header says. */
static struct buf sign(int which, const char *header, const char *payload)
{
	struct buf token = BUF(1 << 20);
	add_part(&token, header, strlen(header));
	add_part(&token, payload, strlen(payload));
	unsigned char sig[512], raw[64];
	size_t len = sizeof sig;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const char *digest = which == ED ? NULL : "SHA256";
	EVP_DigestSignInit_ex(ctx, NULL, digest, NULL, NULL, own[which], NULL);
	EVP_DigestSign(ctx, sig, &len, (unsigned char *)token.data, token.len);
	EVP_MD_CTX_free(ctx);
	if (which == ES)
		raw_from_der(sig, len, raw);
	add_part(&token, which == ES ? raw : sig, which == ES ? sizeof raw : len);
	return token;
}

static int verify(int which, const struct buf *token, const char *audience, struct err *err)
{
	return jwt_verify(keys[which], token->data, token->len, audience, NOW, err);
}

static bool accepts(int which, const char *payload, const char *audience)
{
	struct err err = { 0 };
	auto_buf struct buf token = sign(which, headers[which], payload);
	if (verify(which, &token, audience, &err) == 0)
		return true;
	printf("# %s\n", err.msg);
	return false;
}

/* Whether a token is refused for a reason that holds these words, and not told to anyone. */
static bool refuses(int which, const struct buf *token, const char *audience, const char *words)
{
	struct err err = { 0 };
	int result = verify(which, token, audience, &err);
	bool ok = result == -1 && err.code == ERR_UNAUTHORIZED && strstr(err.msg, words);
	if (!ok)
		printf("# '%s' instead of '%s'\n", err.msg, words);
	return ok && (token->len < 8 || !strstr(err.msg, token->data));
}

static bool refuses_payload(const char *payload, const char *audience, const char *words)
{
	auto_buf struct buf token = sign(ED, headers[ED], payload);
	return refuses(ED, &token, audience, words);
}

static bool refuses_header(const char *header, const char *words)
{
	bool ok = true;
	for (int i = 0; i < KEYS; i++) {
		auto_buf struct buf token = sign(i, header, "{\"exp\":1900000000}");
		ok &= refuses(i, &token, NULL, words);
	}
	return ok;
}

static bool refuses_text(const char *text, const char *words)
{
	auto_buf struct buf token = BUF(1 << 20);
	(void)buf_str(&token, text);
	return refuses(ED, &token, NULL, words);
}

/* The token with its signature replaced. */
static struct buf with_signature(const struct buf *token, const void *sig, size_t len)
{
	struct buf other = BUF(1 << 20);
	const char *dot = strrchr(token->data, '.');
	(void)buf_add(&other, token->data, (size_t)(dot - token->data));
	add_part(&other, sig, len);
	return other;
}

/* --- tests ---------------------------------------------------------------------------------- */

#define RFC_PAYLOAD                                                         \
	".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt" \
	"cGxlLmNvbS9pc19yb290Ijp0cnVlfQ."

/* RFC 7515 A.2 and A.3, RFC 8037 A.4; the last one's payload is a sentence, not JSON. */
static const struct {
	const char *pem, *token, *after;
} vectors[] = {
	{ "-----BEGIN PUBLIC KEY-----\n"
	  "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
	  "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
	  "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
	  "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
	  "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
	  "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
	  "oQIDAQAB\n"
	  "-----END PUBLIC KEY-----\n",
	  "eyJhbGciOiJSUzI1NiJ9" RFC_PAYLOAD
	  "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5Y"
	  "Kt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6x"
	  "BArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6"
	  "BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_I"
	  "oypGlUPQGe77Rw",
	  "the token has expired" },
	{ "-----BEGIN PUBLIC KEY-----\n"
	  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
	  "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
	  "-----END PUBLIC KEY-----\n",
	  "eyJhbGciOiJFUzI1NiJ9" RFC_PAYLOAD
	  "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6"
	  "NU1Q",
	  "the token has expired" },
	{ "-----BEGIN PUBLIC KEY-----\n"
	  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
	  "-----END PUBLIC KEY-----\n",
	  "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
	  "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM"
	  "0KAg",
	  "malformed token: its payload is not a JSON object" },
};

static void test_vectors(void)
{
	const time_t exp = 1300819380;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		struct err err = { 0 };
		struct jwt_key *key = jwt_key_load(vectors[i].pem, &err);
		const char *token = vectors[i].token;
		if (!CHECK(key))
			continue;
		int want = strstr(vectors[i].after, "expired") ? 0 : -1;
		CHECK(jwt_verify(key, token, strlen(token), NULL, exp - 1, &err) == want);
		CHECK(jwt_verify(key, token, strlen(token), NULL, exp, &err) == -1);
		CHECK_STR(err.msg, vectors[i].after);
		CHECK(jwt_verify(key, token, strlen(token), NULL, exp, NULL) == -1);
		jwt_key_free(key);
	}
}

static struct buf certificate_of(EVP_PKEY *pkey)
{
	X509 *cert = X509_new();
	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 60);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"issuer", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509_set_pubkey(cert, pkey);
	X509_sign(cert, pkey, NULL);
	BIO *bio = BIO_new(BIO_s_mem());
	PEM_write_bio_X509(bio, cert);
	X509_free(cert);
	return take_bio(bio);
}

static void test_key_forms(void)
{
	auto_buf struct buf pem = pem_of(own[ED]), text = BUF(65536), wrapped = BUF(65536);
	(void)base64_encode(&text, pem.data, pem.len);
	for (size_t i = 0; i < text.len; i++)
		(void)buf_printf(&wrapped, "%c%s", text.data[i],
				 i % 7   ? ""
				 : i % 2 ? " \t"
					 : "\r\n");
	auto_buf struct buf cert = certificate_of(own[ED]), cert_text = BUF(65536);
	(void)base64_encode(&cert_text, cert.data, cert.len);

	const char *const forms[] = { pem.data, text.data, wrapped.data, cert.data,
				      cert_text.data };
	auto_buf struct buf token = sign(ED, headers[ED], "{}");
	for (size_t i = 0; i < COUNT(forms); i++) {
		struct err err = { 0 };
		struct jwt_key *key = jwt_key_load(forms[i], &err);
		CHECK(key && jwt_verify(key, token.data, token.len, NULL, NOW, &err) == 0);
		jwt_key_free(key);
	}
	jwt_key_free(NULL);
}

static struct buf private_pem(EVP_PKEY *pkey, const EVP_CIPHER *cipher)
{
	BIO *bio = BIO_new(BIO_s_mem());
	PEM_write_bio_PrivateKey(bio, pkey, cipher, (const unsigned char *)"pw", 2, NULL, NULL);
	return take_bio(bio);
}

static void test_bad_keys(void)
{
	CHECK(unloadable("", "neither a PEM"));
	CHECK(unloadable(" \n", "neither a PEM"));
	CHECK(unloadable("secret", "neither a PEM"));
	CHECK(unloadable("c2VjcmV0", "neither a PEM"));
	CHECK(unloadable("LS0t*S1C", "neither a PEM"));
	CHECK(unloadable("-----BEGIN PUBLIC KEY-----\n", "no readable"));
	CHECK(unloadable("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
			 "no readable"));
	CHECK(unloadable("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
			 "no readable"));
	CHECK(unloadable("-----BEGIN PUBLIC KEY-----\nProc-Type: 4,ENCRYPTED\n"
			 "DEK-Info: AES-128-CBC,00000000000000000000000000000000\n\nAAAA\n"
			 "-----END PUBLIC KEY-----\n",
			 "no readable"));
	auto_buf struct buf plain = private_pem(own[ED], NULL);
	auto_buf struct buf locked = private_pem(own[ED], EVP_aes_128_cbc());
	CHECK(unloadable(plain.data, "private"));
	CHECK(unloadable(locked.data, "private"));

	CHECK(unloadable_key(EVP_RSA_gen(1024), "1024 bits is too weak"));
	CHECK(unloadable_key(EVP_EC_gen("P-384"), "P-256"));
	CHECK(unloadable_key(EVP_EC_gen("secp256k1"), "P-256"));
	CHECK(unloadable_key(EVP_PKEY_Q_keygen(NULL, NULL, "X25519"), "not RSA, EC"));
	CHECK(unloadable_key(EVP_PKEY_Q_keygen(NULL, NULL, "ED448"), "not RSA, EC"));

	auto_free char *huge = xmalloc(1 << 20);
	memset(huge, 'A', (1 << 20) - 1);
	huge[(1 << 20) - 1] = 0;
	CHECK(unloadable(huge, "neither a PEM"));
}

static void test_algorithms(void)
{
	for (int i = 0; i < KEYS; i++) {
		CHECK(accepts(i, "{\"exp\":1700000001}", NULL));
		for (int k = 0; k < KEYS; k++) {
			auto_buf struct buf token = sign(i, headers[i], "{}");
			CHECK(k == i ? verify(k, &token, NULL, NULL) == 0
				     : refuses(k, &token, NULL, "algorithm is not allowed"));
			/* The right name over another key's signature. */
			auto_buf struct buf posing = sign(i, headers[k], "{}");
			CHECK(k == i || refuses(k, &posing, NULL, "signature is wrong"));
		}
	}
	EVP_PKEY *stranger = EVP_EC_gen("P-256");
	struct jwt_key *other = load(stranger, NULL);
	auto_buf struct buf token = sign(ES, headers[ES], "{}");
	struct err err = { 0 };
	CHECK(jwt_verify(other, token.data, token.len, NULL, NOW, &err) == -1);
	CHECK_STR(err.msg, "the token's signature is wrong");
	jwt_key_free(other);
	EVP_PKEY_free(stranger);
}

static void test_headers(void)
{
	static const char *const bad[] = { "none",  "None",   "NoNe",        "NONE",  "",
					   "HS256", "HS512",  "RS384",       "RS512", "PS256",
					   "ES384", "ES256K", "Ed25519",     "rs256", "es256",
					   "eddsa", "RS256 ", "EdDSA\\u0000" };
	for (size_t i = 0; i < COUNT(bad); i++) {
		auto_free char *header = xasprintf("{\"alg\":\"%s\"}", bad[i]);
		CHECK(refuses_header(header, "algorithm is not allowed"));
	}
	CHECK(refuses_header("{}", "algorithm is not allowed"));
	CHECK(refuses_header("{\"alg\":null}", "algorithm is not allowed"));
	CHECK(refuses_header("{\"alg\":[\"RS256\",\"ES256\",\"EdDSA\"]}", "not allowed"));
	CHECK(refuses_header("{\"ALG\":\"EdDSA\"}", "algorithm is not allowed"));
	CHECK(refuses_header("[]", "header is not a JSON object"));
	CHECK(refuses_header("\"EdDSA\"", "header is not a JSON object"));
	CHECK(refuses_header("{\"alg\":\"EdDSA\"", "header is not a JSON object"));
	CHECK(refuses_header("{\"alg\":\"EdDSA\"} x", "header is not a JSON object"));
	auto_buf struct buf crit =
		sign(ED, "{\"alg\":\"EdDSA\",\"crit\":[\"b64\"],\"b64\":false}", "{}");
	CHECK(refuses(ED, &crit, NULL, "crit"));
	auto_buf struct buf empty = sign(ED, "{\"alg\":\"EdDSA\",\"crit\":null}", "{}");
	CHECK(refuses(ED, &empty, NULL, "crit"));
	/* A key that the token brings along is nobody's. */
	auto_buf struct buf jwk = sign(RS, "{\"alg\":\"EdDSA\",\"jwk\":{\"kty\":\"RSA\"}}", "{}");
	CHECK(refuses(ED, &jwk, NULL, "signature is wrong"));
}

/* No signature, and a MAC with the public key as its secret: in PEM, as loaded and in DER. */
static void test_confusion(void)
{
	for (int i = 0; i < KEYS; i++) {
		auto_buf struct buf pem = pem_of(own[i]), text = BUF(65536);
		(void)base64_encode(&text, pem.data, pem.len);
		static const char *const names[] = { "{\"alg\":\"HS256\"}", NULL };
		for (int n = 0; n < 2; n++) {
			const char *words = names[n] ? "not allowed" : "signature is wrong";
			auto_buf struct buf token = sign(i, names[n] ? names[n] : headers[i], "{}");
			size_t signed_len = (size_t)(strrchr(token.data, '.') - token.data);
			for (int form = 0; form < 2; form++) {
				const struct buf *secret = form ? &text : &pem;
				unsigned char mac[32];
				HMAC(EVP_sha256(), secret->data, (int)secret->len,
				     (unsigned char *)token.data, signed_len, mac, NULL);
				auto_buf struct buf forged =
					with_signature(&token, mac, sizeof mac);
				CHECK(refuses(i, &forged, NULL, words));
			}
		}
		auto_buf struct buf none = sign(i, "{\"alg\":\"none\"}", "{}");
		auto_buf struct buf bare = with_signature(&none, "", 0);
		CHECK(refuses(i, &bare, NULL, "algorithm is not allowed"));
	}
}

static void test_tampering(void)
{
	for (int i = 0; i < KEYS; i++) {
		auto_buf struct buf token = sign(i, headers[i], "{\"sub\":\"a\"}");
		auto_buf struct buf other = sign(i, headers[i], "{\"sub\":\"b\"}");
		auto_buf struct buf raw = BUF(4096);
		const char *sig = strrchr(token.data, '.') + 1;
		(void)base64url_decode(&raw, sig, strlen(sig));

		auto_buf struct buf swapped = with_signature(&other, raw.data, raw.len);
		CHECK(refuses(i, &swapped, NULL, "signature is wrong"));
		bool truncated = true;
		for (size_t len = 0; len < raw.len; len += len < 64 ? 1 : 64) {
			auto_buf struct buf cut = with_signature(&token, raw.data, len);
			truncated &= refuses(i, &cut, NULL, "signature is wrong");
		}
		CHECK(truncated);
		(void)buf_add(&raw, "", 1);
		auto_buf struct buf longer = with_signature(&token, raw.data, raw.len);
		CHECK(refuses(i, &longer, NULL, "signature is wrong"));
		raw.data[raw.len / 2] ^= 1;
		auto_buf struct buf flipped = with_signature(&token, raw.data, raw.len - 1);
		CHECK(refuses(i, &flipped, NULL, "signature is wrong"));
		auto_buf struct buf bare = with_signature(&token, "", 0);
		CHECK(refuses(i, &bare, NULL, "signature is wrong"));
		memset(raw.data, 0, raw.len);
		auto_buf struct buf zero = with_signature(&token, raw.data, raw.len - 1);
		CHECK(refuses(i, &zero, NULL, "signature is wrong"));
	}
}

/* r and s at their limits: the order of P-256 is where both must stay below. */
static void test_ecdsa_range(void)
{
	static const char order[] =
		"\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"
		"\xbc\xe6\xfa\xad\xa7\x17\x9e\x84\xf3\xb9\xca\xc2\xfc\x63\x25\x51";
	auto_buf struct buf token = sign(ES, headers[ES], "{}");
	auto_buf struct buf raw = BUF(256);
	const char *text = strrchr(token.data, '.') + 1;
	(void)base64url_decode(&raw, text, strlen(text));
	char zero[32] = { 0 }, one[32] = { [31] = 1 }, ones[32];
	memset(ones, 0xff, sizeof ones);
	const char *const values[] = { zero, one, ones, order };
	for (size_t i = 0; i < COUNT(values); i++)
		for (size_t k = 0; k < 3; k++) {
			char sig[64];
			memcpy(sig, raw.data, sizeof sig);
			if (k != 1)
				memcpy(sig, values[i], 32);
			if (k != 0)
				memcpy(sig + 32, values[i], 32);
			auto_buf struct buf forged = with_signature(&token, sig, sizeof sig);
			CHECK(refuses(ES, &forged, NULL, "signature is wrong"));
		}
	/* DER, which other signers use, is not what a JWT holds. */
	BIGNUM *r = BN_bin2bn((unsigned char *)raw.data, 32, NULL);
	BIGNUM *s = BN_bin2bn((unsigned char *)raw.data + 32, 32, NULL);
	ECDSA_SIG *sig = ECDSA_SIG_new();
	ECDSA_SIG_set0(sig, r, s);
	unsigned char der[80], *at = der;
	int len = i2d_ECDSA_SIG(sig, &at);
	ECDSA_SIG_free(sig);
	auto_buf struct buf wrong = with_signature(&token, der, (size_t)len);
	CHECK(refuses(ES, &wrong, NULL, "signature is wrong"));
}

static void test_times(void)
{
	CHECK(accepts(ED, "{}", NULL));
	CHECK(accepts(ED, "{\"exp\":1700000000.5}", NULL));
	CHECK(accepts(ED, "{\"exp\":17e8,\"exp\":1.8e9}", NULL));
	CHECK(accepts(ED, "{\"exp\":99999999999999999999999}", NULL));
	CHECK(refuses_payload("{\"exp\":1700000000}", NULL, "expired"));
	CHECK(refuses_payload("{\"exp\":1699999999.9}", NULL, "expired"));
	CHECK(refuses_payload("{\"exp\":0}", NULL, "expired"));
	CHECK(refuses_payload("{\"exp\":-1}", NULL, "expired"));
	CHECK(accepts(ED, "{\"nbf\":1700000005}", NULL));
	CHECK(accepts(ED, "{\"iat\":1700000005,\"nbf\":1700000004.9,\"exp\":1700000300}", NULL));
	CHECK(refuses_payload("{\"nbf\":1700000006}", NULL, "not valid yet"));
	CHECK(refuses_payload("{\"nbf\":1700000005.1}", NULL, "not valid yet"));
	CHECK(refuses_payload("{\"iat\":1700000006}", NULL, "in the future"));
	static const char *const values[] = { "\"1900000000\"", "null", "true", "[1900000000]",
					      "{}" };
	static const char *const names[] = { "exp", "nbf", "iat" };
	for (size_t i = 0; i < COUNT(names); i++)
		for (size_t k = 0; k < COUNT(values); k++) {
			auto_free char *payload = xasprintf("{\"%s\":%s}", names[i], values[k]);
			CHECK(refuses_payload(payload, NULL, "must be numbers"));
		}
}

static void test_audience(void)
{
	CHECK(accepts(ED, "{\"aud\":\"box\"}", "box"));
	CHECK(accepts(ED, "{\"aud\":[\"other\",7,\"box\"]}", "box"));
	CHECK(accepts(ED, "{\"aud\":\"other\"}", NULL));
	static const char *const bad[] = { "{}",
					   "{\"aud\":\"other\"}",
					   "{\"aud\":\"Box\"}",
					   "{\"aud\":\"boxes\"}",
					   "{\"aud\":\"bo\"}",
					   "{\"aud\":\"\"}",
					   "{\"aud\":null}",
					   "{\"aud\":[]}",
					   "{\"aud\":[[\"box\"]]}",
					   "{\"aud\":{\"box\":\"box\"}}",
					   "{\"aud\":\"box\\u0000\"}" };
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(refuses_payload(bad[i], "box", "audience"));
}

static void test_garbage(void)
{
	static const char *const unparted[] = { "",        ".",    "a",   "a.b",
						"a.b.c.d", "....", "e30", "e30.e30" };
	for (size_t i = 0; i < COUNT(unparted); i++)
		CHECK(refuses_text(unparted[i], "not three parts"));
	CHECK(refuses_text("..", "header is not"));
	CHECK(refuses_text("e30..", "not allowed"));
	CHECK(refuses_text("a.b.c", "base64url"));
	CHECK(refuses_text("e30.e30.AA==", "base64url"));
	CHECK(refuses_text("e30.e30.A+", "base64url"));
	CHECK(refuses_text("e30.e30.AB", "base64url"));
	CHECK(refuses_text("e30=.e30.AA", "header is not"));
	CHECK(refuses_text("e3 0.e30.AA", "header is not"));
	CHECK(refuses_text(" e30.e30.AA", "header is not"));
	CHECK(refuses_text("e31.e30.AA", "header is not"));
	CHECK(refuses_payload("", NULL, "payload is not"));
	CHECK(refuses_payload("[]", NULL, "payload is not"));
	CHECK(refuses_payload("{", NULL, "payload is not"));
	CHECK(refuses_payload("{\"exp\":NaN}", NULL, "payload is not"));
	CHECK(refuses_payload("{\"a\":\"\xff\"}", NULL, "payload is not"));

	/* A NUL ends nothing: all bytes count. */
	auto_buf struct buf token = sign(ED, headers[ED], "{}");
	(void)buf_add(&token, "\0", 1);
	CHECK(refuses(ED, &token, NULL, "base64url"));
}

static void test_sizes(void)
{
	auto_buf struct buf payload = BUF(1 << 20);
	(void)buf_printf(&payload, "{\"a\":\"%0*d\"}", 12000, 0);
	auto_buf struct buf big = sign(ED, headers[ED], payload.data);
	CHECK(big.len > 16000 && big.len <= JWT_MAX && verify(ED, &big, NULL, NULL) == 0);
	payload.len = 0;
	(void)buf_printf(&payload, "{\"a\":\"%0*d\"}", 13000, 0);
	auto_buf struct buf huge = sign(ED, headers[ED], payload.data);
	CHECK(huge.len > JWT_MAX && refuses(ED, &huge, NULL, "longer than 16384 bytes"));

	payload.len = 0;
	(void)buf_str(&payload, "{\"a\":");
	for (int i = 0; i < 5000; i++)
		(void)buf_str(&payload, "[");
	for (int i = 0; i < 5000; i++)
		(void)buf_str(&payload, "]");
	(void)buf_str(&payload, "}");
	auto_buf struct buf deep = sign(ED, headers[ED], payload.data);
	CHECK(refuses(ED, &deep, NULL, "payload is not"));
}

static void *verify_often(void *arg)
{
	struct buf *tokens = arg;
	for (int i = 0; i < 60; i++) {
		struct err err;
		int which = i % KEYS;
		if (verify(which, &tokens[which], "box", &err) != 0)
			return arg;
		if (verify(which, &tokens[(which + 1) % KEYS], "box", &err) == 0)
			return arg;
	}
	return NULL;
}

static void test_threads(void)
{
	struct buf tokens[KEYS];
	for (int i = 0; i < KEYS; i++)
		tokens[i] = sign(i, headers[i], "{\"aud\":\"box\",\"exp\":1800000000}");
	pthread_t threads[4];
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_create(&threads[i], NULL, verify_often, tokens);
	for (size_t i = 0; i < COUNT(threads); i++) {
		void *failed = tokens;
		pthread_join(threads[i], &failed);
		CHECK(!failed);
	}
	for (int i = 0; i < KEYS; i++)
		buf_done(&tokens[i]);
}

int main(void)
{
	own[RS] = EVP_RSA_gen(2048);
	own[ES] = EVP_EC_gen("P-256");
	own[ED] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	for (int i = 0; i < KEYS; i++)
		if (!CHECK((keys[i] = load(own[i], NULL))))
			return tap_done();
	test_threads(); /* first: it is the first use of a key that may race */
	test_vectors();
	test_key_forms();
	test_bad_keys();
	test_algorithms();
	test_headers();
	test_confusion();
	test_tampering();
	test_ecdsa_range();
	test_times();
	test_audience();
	test_garbage();
	test_sizes();
	for (int i = 0; i < KEYS; i++) {
		jwt_key_free(keys[i]);
		EVP_PKEY_free(own[i]);
	}
	return tap_done();
}
