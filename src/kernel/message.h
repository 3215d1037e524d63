/* message.h - the messages of the Jupyter protocol (5.x) as frames, and their signatures. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/desc.h"

struct err;

enum {
	MESSAGE_FRAMES = 6, /* of one that we send */
	MESSAGE_SIGNATURE = 65,
	MESSAGE_ID = 64,
	MESSAGE_TYPE = 48,
};

/* One that came. */
struct message {
	char type[MESSAGE_TYPE], id[MESSAGE_ID]; /* "" where it does not say */
	char parent[MESSAGE_ID];                 /* the id of the request it belongs to */
	json_t *content;                         /* an object */
};

/* Reads the frames [identities…] <IDS|MSG> signature header parent_header metadata content
 * [buffers…]. With a key (not "") the signature, HMAC-SHA256 in hex, has to be right. */
int message_parse(const struct text *frames, size_t count, const char *key, struct message *ret,
		  struct err *err);
void message_done(struct message *message);

/* One to be sent: frames to be given to the socket while it lives. */
struct message_out {
	struct buf header, content;
	char signature[MESSAGE_SIGNATURE];
	struct text frames[MESSAGE_FRAMES];
};

/* content is JSON text, which is taken over. */
void message_make(struct message_out *to, const char *key, const char *session, const char *id,
		  const char *type, struct buf *content);
void message_out_done(struct message_out *message);

/* The signature of the four parts. */
void message_sign(const char *key, const struct text parts[4], char ret[MESSAGE_SIGNATURE]);
