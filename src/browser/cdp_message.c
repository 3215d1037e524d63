#include "browser/cdp_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"

enum { WORDS_MAX = 400, DIGITS_MAX = 18 };

/* The browser writes the id first. */
int64_t cdp_message_peek(const char *text, size_t len)
{
	static const char start[] = "{\"id\":";
	const size_t skip = sizeof start - 1;
	int64_t id = 0;
	size_t at = skip;
	if (len < skip || memcmp(text, start, skip) != 0)
		return 0;
	for (; at < len && at < skip + DIGITS_MAX && text[at] >= '0' && text[at] <= '9'; at++)
		id = id * 10 + (text[at] - '0');
	return at < len && (text[at] == ',' || text[at] == '}') ? id : 0;
}

static int read_error(const json_t *error, struct err *err)
{
	const char *words = json_string_value(json_object_get(error, "message"));
	const char *data = json_string_value(json_object_get(error, "data"));
	return err_set(err, ERR_CONFLICT, "%.*s%s%.*s", WORDS_MAX,
		       words ? words : "the browser refuses", data ? ": " : "", WORDS_MAX / 4,
		       data ? data : "");
}

static int read_answer(struct cdp_message *m, const json_t *id, struct err *err)
{
	const json_t *error = json_object_get(m->json, "error");
	m->id = json_integer_value(id);
	if (m->id <= 0) {
		m->id = 0;
		return err_set(err, ERR_INTERNAL, "the browser sent an answer to nothing");
	}
	if (error)
		return read_error(error, err);
	m->result = json_object_get(m->json, "result");
	if (!json_is_object(m->result))
		return err_set(err, ERR_INTERNAL, "the browser sent an answer without a result");
	return 0;
}

static int read_event(struct cdp_message *m, struct err *err)
{
	const char *session = json_string_value(json_object_get(m->json, "sessionId"));
	m->method = json_string_value(json_object_get(m->json, "method"));
	m->session = session ? session : "";
	m->params = json_object_get(m->json, "params");
	if (!m->method)
		return err_set(err, ERR_INTERNAL, "the browser sent a message without a method");
	if (!json_is_object(m->params)) {
		json_t *none = json_object();
		if (json_object_set_new(m->json, "params", none) < 0)
			return err_set(err, ERR_INTERNAL, "the browser sent an unusable message");
		m->params = none;
	}
	return 0;
}

int cdp_message_read(char *text, size_t len, struct cdp_message *ret, struct err *err)
{
	*ret = (struct cdp_message){ .session = "" };
	int64_t id = cdp_message_peek(text, len);
	ret->json = json_parse(text, len, err);
	if (!json_is_object(ret->json)) {
		ret->id = id;
		return err_set(err, ERR_TOO_LARGE,
			       "the browser's answer is nested too deeply, has too many values, or "
			       "is not JSON");
	}
	const json_t *own = json_object_get(ret->json, "id");
	return own ? read_answer(ret, own, err) : read_event(ret, err);
}

void cdp_message_done(struct cdp_message *message)
{
	json_decref(message->json);
	message->json = NULL;
}
