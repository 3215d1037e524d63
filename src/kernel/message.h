/* message.h - the messages of the Jupyter protocol (5.x) as frames, and their signatures. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/desc.h"

struct err;

enum {
	MESSAGE_FRAMES = 6, /* of one that we send */
	MESSAGE_SIGNATURE = 65,
	MESSAGE_TYPE = 48,
};

/* What messages are signed with: HMAC-SHA256, in hex. NULL signs nothing, and believes everything. */
struct message_key;
struct message_key *message_key_new(const char *text); /* NULL for "" */
void message_key_free(struct message_key *key);        /* NULL is fine */

/* One that came; it lives as long as its frames. */
struct message {
	char type[MESSAGE_TYPE]; /* "" where it does not say */
	struct text parent, content;
};

/* Reads the frames [identities…] <IDS|MSG> signature header parent_header metadata content
 * [buffers…]. The signature has to be right: ERR_FORBIDDEN. */
int message_read(const struct text *frames, size_t count, struct message_key *key,
		 struct message *ret, struct err *err);

/* Whether it belongs to the request of that id. */
bool message_answers(const struct message *message, const char *id);

/* Its content, an object, to be freed by the caller; NULL with err. */
json_t *message_content(const struct message *message, struct err *err);

/* One to be sent: frames to be given to the socket while it lives. */
struct message_out {
	struct buf header, content;
	char signature[MESSAGE_SIGNATURE];
	struct text frames[MESSAGE_FRAMES];
};

/* content is JSON text, which is taken over. */
void message_make(struct message_out *to, struct message_key *key, const char *session,
		  const char *id, const char *type, struct buf *content);
void message_out_done(struct message_out *message);

/* The signature of the four parts. */
void message_sign(struct message_key *key, const struct text parts[4], char ret[MESSAGE_SIGNATURE]);
