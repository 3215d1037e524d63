/* cdp_message.h - one message of the DevTools protocol, taken apart. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct cdp_message {
	json_t *json;        /* owns the rest */
	int64_t id;          /* of an answer; 0: an event, or nothing that can be used */
	json_t *result;      /* of an answer that is not an error */
	const char *session; /* of an event; "": the browser's own */
	const char *method;  /* of an event; NULL otherwise */
	const json_t *params;
};

/* Takes a message apart; text is changed. 0: an answer with a result, or an event. -1 with err: the
 * browser refuses (ERR_CONFLICT, in its words) or the message is not what the protocol has; id, where
 * it can be told, says whose answer it was. Always to be ended by cdp_message_done(). */
int cdp_message_read(char *text, size_t len, struct cdp_message *ret, struct err *err);
void cdp_message_done(struct cdp_message *message);

/* The id at the beginning of a message that is too large to be read whole; 0: there is none. */
int64_t cdp_message_peek(const char *text, size_t len);
