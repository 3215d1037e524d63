#include "kernel/kernel_message.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "kernel/kernel_wire.h"

static const char delimiter[] = "<IDS|MSG>";
enum { PARTS = 4, HEADER_MAX = 1 << 20, DIGEST = 32 };

/* ---- signatures ---- */

struct kernel_message_key {
	EVP_MAC_CTX
	*mac; /* with the key: to begin anew takes a fraction of the time of a new one */
};

struct kernel_message_key *kernel_message_key_new(const char *text)
{
	static char digest[] = "SHA256";
	const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST,
								       digest, 0),
				      OSSL_PARAM_construct_end() };
	if (!*text)
		return NULL;
	struct kernel_message_key *key = xcalloc(1, sizeof *key);
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	key->mac = EVP_MAC_CTX_new(hmac);
	EVP_MAC_free(hmac);
	if (!key->mac || !EVP_MAC_init(key->mac, (const unsigned char *)text, strlen(text), params))
		abort(); /* without SHA-256 there are no kernels */
	return key;
}

void kernel_message_key_free(struct kernel_message_key *key)
{
	if (key)
		EVP_MAC_CTX_free(key->mac);
	free(key);
}

void kernel_message_sign(struct kernel_message_key *key, const struct text parts[4],
			 char ret[MESSAGE_SIGNATURE])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char mac[DIGEST];
	size_t len = 0;
	*ret = 0;
	if (!key)
		return;
	(void)EVP_MAC_init(key->mac, NULL, 0, NULL);
	for (int i = 0; i < PARTS; i++)
		(void)EVP_MAC_update(key->mac, (const unsigned char *)parts[i].data, parts[i].len);
	(void)EVP_MAC_final(key->mac, mac, &len, sizeof mac);
	for (size_t i = 0; i < len; i++) {
		ret[i * 2] = digits[mac[i] >> 4];
		ret[i * 2 + 1] = digits[mac[i] & 15];
	}
	ret[len * 2] = 0;
}

/* ---- what came ---- */

int kernel_message_read(const struct text *frames, size_t count, struct kernel_message_key *key,
			struct message *ret, struct err *err)
{
	char signature[MESSAGE_SIGNATURE];
	size_t at = 0;
	*ret = (struct message){ 0 };
	while (at < count && !(frames[at].len == sizeof delimiter - 1 &&
			       !memcmp(frames[at].data, delimiter, sizeof delimiter - 1)))
		at++;
	if (count - at < 2 + PARTS)
		return err_set(err, ERR_BAD_REQUEST, "the message has too few frames");
	const struct text *given = &frames[at + 1], *parts = &frames[at + 2];
	kernel_message_sign(key, parts, signature);
	if (key && (given->len != sizeof signature - 1 ||
		    CRYPTO_memcmp(given->data, signature, given->len) != 0))
		return err_set(err, ERR_FORBIDDEN, "the message has a wrong signature");
	/* A header is made of plain strings, whatever language wrote it. */
	kernel_wire_member(&parts[0], "msg_type", ret->type, sizeof ret->type);
	ret->parent = parts[1];
	ret->content = parts[3];
	ret->parts = parts;
	ret->count = count - (size_t)(parts - frames);
	return 0;
}

bool kernel_message_answers(const struct message *message, const char *id)
{
	char quoted[96];
	int len = snprintf(quoted, sizeof quoted, "\"%s\"", id);
	return (size_t)len < sizeof quoted &&
	       memmem(message->parent.data, message->parent.len, quoted, (size_t)len);
}

json_t *kernel_message_content(const struct message *message, struct err *err)
{
	auto_buf struct buf copy = BUF(message->content.len + 1); /* parsing changes it */
	(void)buf_add(&copy, message->content.data, message->content.len);
	json_t *value = json_parse(copy.data, copy.len, err);
	if (value && !json_is_object(value)) {
		json_decref(value);
		value = NULL;
		err_set(err, ERR_BAD_REQUEST, "the message's content is not an object");
	}
	return value;
}

/* ---- what is sent ---- */

void kernel_message_header(struct buf *to, const char *session, const char *id, const char *type)
{
	char date[64] = "";
	struct timespec now;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &now);
	size_t n = strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
	snprintf(date + n, sizeof date - n, ".%06ldZ", now.tv_nsec / 1000);
	buf_init(to, HEADER_MAX);
	(void)buf_printf(to,
			 "{\"msg_id\":\"%s\",\"msg_type\":\"%s\",\"session\":\"%s\","
			 "\"username\":\"aio\",\"date\":\"%s\",\"version\":\"5.3\"}",
			 id, type, session, date);
}

void kernel_message_make(struct kernel_message_out *to, struct kernel_message_key *key,
			 const char *session, const char *id, const char *type, struct buf *content)
{
	kernel_message_header(&to->header, session, id, type);
	to->content = *content;
	*content = (struct buf){ 0 };
	const struct text parts[PARTS] = { { to->header.data, to->header.len },
					   { "{}", 2 },
					   { "{}", 2 },
					   { to->content.data, to->content.len } };
	kernel_message_sign(key, parts, to->signature);
	to->frames[0] = (struct text){ delimiter, sizeof delimiter - 1 };
	to->frames[1] = (struct text){ to->signature, strlen(to->signature) };
	memcpy(&to->frames[2], parts, sizeof parts);
}

void kernel_message_out_done(struct kernel_message_out *message)
{
	buf_done(&message->header);
	buf_done(&message->content);
}
