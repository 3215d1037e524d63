#include "kernel/message.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"

static const char delimiter[] = "<IDS|MSG>";
enum { PARTS = 4, HEADER_MAX = 1 << 20 };

void message_sign(const char *key, const struct text parts[4], char ret[MESSAGE_SIGNATURE])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	*ret = 0;
	if (!*key)
		return;
	auto_buf struct buf all = BUF(SIZE_MAX / 2);
	for (int i = 0; i < PARTS; i++)
		(void)buf_add(&all, parts[i].data, parts[i].len);
	HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)(all.data ? all.data : ""),
	     all.len, mac, &len);
	for (unsigned int i = 0; i < len && i < 32; i++)
		snprintf(ret + (size_t)i * 2, 3, "%02x", mac[i]);
}

static json_t *parse(const struct text *text, struct err *err)
{
	auto_buf struct buf copy = BUF(text->len + 1); /* parsing changes it */
	(void)buf_add(&copy, text->data, text->len);
	json_t *value = json_parse(copy.data, copy.len, err);
	if (value && !json_is_object(value)) {
		json_decref(value);
		value = NULL;
		err_set(err, ERR_BAD_REQUEST, "a part of the message is not an object");
	}
	return value;
}

static void copy_text(const json_t *object, const char *key, char *to, size_t room)
{
	const char *value = json_string_value(json_object_get(object, key));
	snprintf(to, room, "%s", value ? value : "");
}

int message_parse(const struct text *frames, size_t count, const char *key, struct message *ret,
		  struct err *err)
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
	message_sign(key, parts, signature);
	if (*key && (given->len != sizeof signature - 1 ||
		     CRYPTO_memcmp(given->data, signature, given->len) != 0))
		return err_set(err, ERR_FORBIDDEN, "the message has a wrong signature");
	if (parts[0].len > HEADER_MAX || parts[1].len > HEADER_MAX)
		return err_set(err, ERR_TOO_LARGE, "the message has too long a header");
	json_t *header = parse(&parts[0], err);
	json_t *parent = header ? parse(&parts[1], err) : NULL;
	ret->content = parent ? parse(&parts[3], err) : NULL;
	copy_text(header, "msg_type", ret->type, sizeof ret->type);
	copy_text(header, "msg_id", ret->id, sizeof ret->id);
	copy_text(parent, "msg_id", ret->parent, sizeof ret->parent);
	json_decref(header);
	json_decref(parent);
	return ret->content ? 0 : -1;
}

void message_done(struct message *message)
{
	json_decref(message->content);
	message->content = NULL;
}

static void make_header(struct buf *to, const char *session, const char *id, const char *type)
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

void message_make(struct message_out *to, const char *key, const char *session, const char *id,
		  const char *type, struct buf *content)
{
	make_header(&to->header, session, id, type);
	to->content = *content;
	*content = (struct buf){ 0 };
	const struct text parts[PARTS] = { { to->header.data, to->header.len },
					   { "{}", 2 },
					   { "{}", 2 },
					   { to->content.data, to->content.len } };
	message_sign(key, parts, to->signature);
	to->frames[0] = (struct text){ delimiter, sizeof delimiter - 1 };
	to->frames[1] = (struct text){ to->signature, strlen(to->signature) };
	memcpy(&to->frames[2], parts, sizeof parts);
}

void message_out_done(struct message_out *message)
{
	buf_done(&message->header);
	buf_done(&message->content);
}
