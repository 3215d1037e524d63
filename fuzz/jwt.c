#include "base/jwt.h"

#include <openssl/evp.h>
#include <stdint.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/own.h"

static const char ec_key[] = "-----BEGIN PUBLIC KEY-----\n"
			     "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
			     "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
			     "-----END PUBLIC KEY-----\n";
static const char ed_key[] = "-----BEGIN PUBLIC KEY-----\n"
			     "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
			     "-----END PUBLIC KEY-----\n";
/* The private half of ed_key, from RFC 8037: without it no input would get past its signature. */
static const unsigned char seed[] =
	"\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4"
	"\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60";

/* Puts a signature to header.payload. */
static void sign(struct buf *token)
{
	unsigned char sig[64];
	size_t len = sizeof sig;
	EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_DigestSignInit(ctx, NULL, NULL, NULL, pkey);
	EVP_DigestSign(ctx, sig, &len, (const unsigned char *)token->data, token->len);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	(void)buf_str(token, ".");
	(void)base64url_encode(token, sig, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The first byte tells what the rest is: 'P' a payload to sign, 'K' a key, else a token. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct jwt_key *ec, *ed;
	if (!ec) {
		ec = jwt_key_load(ec_key, NULL);
		ed = jwt_key_load(ed_key, NULL);
	}
	if (!len || len > 2 * JWT_MAX)
		return 0;
	auto_buf struct buf text = BUF(8 * JWT_MAX);
	if (*data == 'P') {
		(void)buf_str(&text, "eyJhbGciOiJFZERTQSJ9.");
		(void)base64url_encode(&text, data + 1, len - 1);
		sign(&text);
	} else {
		(void)buf_add(&text, data + 1, len - 1);
	}
	if (*data == 'K')
		jwt_key_free(jwt_key_load(text.data, NULL));
	(void)jwt_verify(ec, text.data, text.len, "box", 1700000000, NULL);
	(void)jwt_verify(ed, text.data, text.len, "box", 1700000000, NULL);
	return 0;
}
