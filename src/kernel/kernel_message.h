/* kernel_message.h - the messages of the Jupyter protocol (5.x) as frames, and their signatures. */
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
struct kernel_message_key;
struct kernel_message_key *kernel_message_key_new(const char *text); /* NULL for "" */
void kernel_message_key_free(struct kernel_message_key *key);        /* NULL is fine */

/* One that came; it lives as long as its frames. */
struct message {
	char type[MESSAGE_TYPE]; /* "" where it does not say */
	struct text parent, content;
	const struct text
		*parts; /* its header, parent_header, metadata and content, then its buffers */
	size_t count;
};

/* Reads the frames [identities…] <IDS|MSG> signature header parent_header metadata content
 * [buffers…]. The signature has to be right: ERR_FORBIDDEN. */
int kernel_message_read(const struct text *frames, size_t count, struct kernel_message_key *key,
			struct message *ret, struct err *err);

/* Whether it belongs to the request of that id. */
bool kernel_message_answers(const struct message *message, const char *id);

/* Its content, an object, to be freed by the caller; NULL with err. */
json_t *kernel_message_content(const struct message *message, struct err *err);

/* The header of a message of ours, in a new buffer. */
void kernel_message_header(struct buf *to, const char *session, const char *id, const char *type);

/* One to be sent: frames to be given to the socket while it lives. */
struct kernel_message_out {
	struct buf header, content;
	char signature[MESSAGE_SIGNATURE];
	struct text frames[MESSAGE_FRAMES];
};

/* content is JSON text, which is taken over. */
void kernel_message_make(struct kernel_message_out *to, struct kernel_message_key *key,
			 const char *session, const char *id, const char *type,
			 struct buf *content);
void kernel_message_out_done(struct kernel_message_out *message);

/* The signature of the four parts. */
void kernel_message_sign(struct kernel_message_key *key, const struct text parts[4],
			 char ret[MESSAGE_SIGNATURE]);
