#include "net/multipart.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/url.h"
#include "base/utf8.h"
#include "net/mime.h"

enum {
	BOUNDARY_MAX = 70,
	DELIMITER_MAX = 4 + BOUNDARY_MAX, /* CR LF - - and the boundary */
	PADDING_MAX = 64,                 /* white space after it, on the same line */
	HELD_MAX = DELIMITER_MAX + PADDING_MAX + 2,
};

enum state { PREAMBLE, HEAD, DATA, EPILOGUE, FAILED };

struct multipart {
	const struct multipart_ops *ops;
	void *arg;
	enum state state;
	int parts;

	char delimiter[DELIMITER_MAX];
	size_t delimiter_len;

	/* What came last and may be the beginning of a boundary line, of which the first skip bytes
	 * are no data: the line break that ends the headers also begins an empty part's boundary. */
	char held[HELD_MAX];
	size_t held_len, skip;

	/* Begins with the line break of the boundary line, so that each header line follows one. */
	char head[2 + MULTIPART_HEAD_MAX];
	size_t head_len;
};

/* --- header values, taken apart in place ------------------------------------------------------ */

static char *trim(char *text)
{
	text += strspn(text, " \t");
	size_t len = strlen(text);
	while (len && strchr(" \t", text[len - 1]))
		len--;
	text[len] = 0;
	return text;
}

/* Ends the quoted text that begins at text, undoing its escapes. Returns what follows, or NULL. A
 * backslash before anything else stays: some clients send C:\file unescaped. */
static char *unquote(char *text)
{
	char *to = text;
	for (; *text && *text != '"'; text++) {
		if (text[0] == '\\' && (text[1] == '"' || text[1] == '\\'))
			text++;
		*to++ = *text;
	}
	if (!*text)
		return NULL;
	*to = 0;
	return text + 1;
}

/* Takes one "; name=value" off *at. Returns 1, or 0 at the end, or -1 when it is malformed. */
static int next_param(char **at, char **ret_name, char **ret_value)
{
	char *name = *at + strspn(*at, "; \t"), *rest;
	*at = name;
	if (!*name)
		return 0;
	char *value = name + strcspn(name, "=;");
	if (*value != '=')
		return -1;
	*value++ = 0;
	value += strspn(value, " \t");
	if (*value == '"') {
		rest = unquote(++value);
		if (!rest)
			return -1;
		rest += strspn(rest, " \t");
		if (*rest && *rest != ';')
			return -1;
	} else {
		rest = value + strcspn(value, ";");
		bool last = !*rest;
		*rest = 0;
		rest += !last;
		value = trim(value);
	}
	*at = rest;
	*ret_name = trim(name);
	*ret_value = value;
	return 1;
}

/* --- boundary --------------------------------------------------------------------------------- */

static int set_boundary(struct multipart *parser, const char *boundary, struct err *err)
{
	size_t len = strlen(boundary);
	bool good = len >= 1 && len <= BOUNDARY_MAX && boundary[len - 1] != ' ';
	for (size_t i = 0; i < len; i++)
		good = good && boundary[i] >= ' ' && boundary[i] < 127;
	if (!good)
		return err_set(
			err, ERR_BAD_REQUEST,
			"the boundary of multipart/form-data must be 1 to %d printable characters",
			BOUNDARY_MAX);
	memcpy(parser->delimiter, "\r\n--", 4);
	memcpy(parser->delimiter + 4, boundary, len);
	parser->delimiter_len = 4 + len;
	return 0;
}

static int find_boundary(struct multipart *parser, const char *content_type, struct err *err)
{
	if (!mime_is(content_type, "multipart/form-data"))
		return err_set(err, ERR_MEDIA_TYPE, "the body must be multipart/form-data");
	auto_free char *copy = xstrdup(content_type);
	char *at = copy + strcspn(copy, ";"), *name, *value, *boundary = NULL;
	int more;
	while ((more = next_param(&at, &name, &value)) > 0) {
		if (strcasecmp(name, "boundary"))
			continue;
		if (boundary)
			return err_set(err, ERR_BAD_REQUEST,
				       "multipart/form-data has two boundaries");
		boundary = value;
	}
	if (more < 0)
		return err_set(err, ERR_BAD_REQUEST, "the Content-Type is malformed");
	if (!boundary)
		return err_set(err, ERR_BAD_REQUEST, "multipart/form-data has no boundary");
	return set_boundary(parser, boundary, err);
}

enum line { NOT_BOUNDARY, MORE_NEEDED, NEXT_PART, LAST_PART };

/* What the line break at text begins; *ret_len is the length of a boundary line. */
static enum line judge(const struct multipart *parser, const char *text, size_t len,
		       size_t *ret_len)
{
	size_t common = len < parser->delimiter_len ? len : parser->delimiter_len, padding = 0;
	if (memcmp(text, parser->delimiter, common))
		return NOT_BOUNDARY;
	text += common;
	len -= common;
	if (len && *text == '-') {
		*ret_len = common + 2;
		return len < 2 ? MORE_NEEDED : text[1] == '-' ? LAST_PART : NOT_BOUNDARY;
	}
	while (padding < len && padding < PADDING_MAX &&
	       (text[padding] == ' ' || text[padding] == '\t'))
		padding++;
	if (padding < len && text[padding] != '\r')
		return NOT_BOUNDARY;
	if (len < padding + 2)
		return MORE_NEEDED;
	*ret_len = common + padding + 2;
	return text[padding + 1] == '\n' ? NEXT_PART : NOT_BOUNDARY;
}

/* --- the head of a part ----------------------------------------------------------------------- */

struct multipart_head {
	char *disposition, *type, *encoding;
};

static char **head_slot(struct multipart_head *head, const char *name)
{
	return !strcasecmp(name, "content-disposition")         ? &head->disposition
	       : !strcasecmp(name, "content-type")              ? &head->type
	       : !strcasecmp(name, "content-transfer-encoding") ? &head->encoding
								: NULL;
}

/* Takes one header line apart; those that nobody asks for are ignored. */
static int head_line(struct multipart_head *head, char *line, struct err *err)
{
	char *colon = strchr(line, ':');
	if (!colon || colon == line || strcspn(line, " \t\"") < (size_t)(colon - line))
		return err_set(err, ERR_BAD_REQUEST, "a part has a malformed header line");
	*colon = 0;
	char **slot = head_slot(head, line);
	if (!slot)
		return 0;
	if (*slot)
		return err_set(err, ERR_BAD_REQUEST, "a part has two %s headers", line);
	*slot = trim(colon + 1);
	return 0;
}

/* Decodes filename*=UTF-8'language'percent-encoded (RFC 5987). */
static int long_filename(const char *text, struct buf *ret, struct err *err)
{
	const char *language = strchr(text, '\''),
		   *rest = language ? strchr(language + 1, '\'') : NULL;
	if (!rest || language - text != 5 || strncasecmp(text, "utf-8", 5) ||
	    url_decode(ret, rest + 1, strlen(rest + 1)) < 0 || !utf8_valid(ret->data, ret->len))
		return err_set(err, ERR_BAD_REQUEST, "a part's filename* is not valid UTF-8''...");
	return 0;
}

static int parse_disposition(char *text, struct multipart_part *ret, const char **ret_long,
			     struct err *err)
{
	char *at = text + strcspn(text, ";"), *name, *value;
	bool last = !*at;
	*at = 0;
	at += !last;
	int more = strcasecmp(trim(text), "form-data") ? -1 : 1;
	while (more > 0 && (more = next_param(&at, &name, &value)) > 0) {
		const char **slot = !strcasecmp(name, "name")        ? &ret->name
				    : !strcasecmp(name, "filename")  ? &ret->filename
				    : !strcasecmp(name, "filename*") ? ret_long
								     : NULL;
		if (slot && *slot)
			more = -1;
		else if (slot)
			*slot = value;
	}
	if (more < 0)
		return err_set(err, ERR_BAD_REQUEST, "a part has a malformed Content-Disposition");
	if (!ret->name)
		return err_set(err, ERR_BAD_REQUEST, "a part has no name");
	return 0;
}

static bool plain_encoding(const char *name)
{
	return !strcasecmp(name, "7bit") || !strcasecmp(name, "8bit") ||
	       !strcasecmp(name, "binary");
}

static int begin_part(struct multipart *parser, const struct multipart_head *head, struct err *err)
{
	struct multipart_part part = { .content_type = "text/plain" };
	const char *encoded = NULL;
	auto_buf struct buf filename = BUF(MULTIPART_HEAD_MAX);
	if (!head->disposition)
		return err_set(err, ERR_BAD_REQUEST, "a part has no Content-Disposition");
	if (head->encoding && !plain_encoding(head->encoding))
		return err_set(err, ERR_BAD_REQUEST,
			       "a part's Content-Transfer-Encoding must be 7bit, 8bit or binary");
	if (parse_disposition(head->disposition, &part, &encoded, err) < 0)
		return -1;
	if (encoded) {
		if (long_filename(encoded, &filename, err) < 0)
			return -1;
		part.filename = filename.data;
	}
	if (head->type && *head->type)
		part.content_type = head->type;
	return parser->ops->part(parser->arg, &part, err);
}

/* Parses the whole head: lines that each follow a line break, and an empty one. */
static int parse_head(struct multipart *parser, struct err *err)
{
	struct multipart_head head = { 0 };
	char *line = parser->head + 2, *end = parser->head + parser->head_len - 2;
	while (line < end) {
		char *stop = memmem(line, (size_t)(end - line) + 2, "\r\n", 2);
		*stop = 0;
		if (strcspn(line, "\r\n") < (size_t)(stop - line))
			return err_set(err, ERR_BAD_REQUEST,
				       "a part has a stray line break or a NUL in its headers");
		if (head_line(&head, line, err) < 0)
			return -1;
		line = stop + 2;
	}
	return begin_part(parser, &head, err);
}

static ssize_t feed_head(struct multipart *parser, const char *data, size_t len, struct err *err)
{
	size_t old = parser->head_len, room = sizeof parser->head - old,
	       take = len < room ? len : room;
	memcpy(parser->head + old, data, take);
	parser->head_len += take;
	size_t from = old < 3 ? 0 : old - 3;
	const char *end = memmem(parser->head + from, parser->head_len - from, "\r\n\r\n", 4);
	if (!end && take == room)
		return err_set(err, ERR_TOO_LARGE, "a part has more than %d bytes of headers",
			       MULTIPART_HEAD_MAX);
	if (!end)
		return (ssize_t)take;
	parser->head_len = (size_t)(end - parser->head) + 4;
	take = parser->head_len - old;
	if (parse_head(parser, err) < 0)
		return -1;
	parser->state = DATA;
	memcpy(parser->held, "\r\n", 2);
	parser->held_len = parser->skip = 2;
	return (ssize_t)take;
}

/* --- the data of a part ----------------------------------------------------------------------- */

static int emit(struct multipart *parser, const char *data, size_t len, struct err *err)
{
	size_t skip = parser->skip < len ? parser->skip : len;
	parser->skip -= skip;
	if (parser->state == PREAMBLE || skip == len)
		return 0;
	return parser->ops->data(parser->arg, data + skip, len - skip, err);
}

static int pass_boundary(struct multipart *parser, enum line line, struct err *err)
{
	if (parser->state == DATA && parser->ops->end(parser->arg, err) < 0)
		return -1;
	if (line == LAST_PART) {
		parser->state = EPILOGUE;
		return 0;
	}
	if (parser->parts++ == MULTIPART_PARTS_MAX)
		return err_set(err, ERR_TOO_LARGE, "the form has more than %d parts",
			       MULTIPART_PARTS_MAX);
	parser->state = HEAD;
	parser->held_len = parser->skip = 0;
	memcpy(parser->head, "\r\n", 2);
	parser->head_len = 2;
	return 0;
}

static void hold(struct multipart *parser, const char *data, size_t len)
{
	memcpy(parser->held + parser->held_len, data, len);
	parser->held_len += len;
}

/* Looks for the boundary in data that nothing is held of. Returns how much it used. */
static ssize_t feed_fresh(struct multipart *parser, const char *data, size_t len, struct err *err)
{
	const char *end = data + len, *at = data;
	while ((at = memchr(at, '\r', (size_t)(end - at)))) {
		size_t line_len = 0;
		enum line line = judge(parser, at, (size_t)(end - at), &line_len);
		if (line == NOT_BOUNDARY) {
			at++;
			continue;
		}
		if (emit(parser, data, (size_t)(at - data), err) < 0)
			return -1;
		if (line == MORE_NEEDED) {
			hold(parser, at, (size_t)(end - at));
			return (ssize_t)len;
		}
		if (pass_boundary(parser, line, err) < 0)
			return -1;
		return at - data + (ssize_t)line_len;
	}
	return emit(parser, data, len, err) < 0 ? -1 : (ssize_t)len;
}

static ssize_t feed_data(struct multipart *parser, const char *data, size_t len, struct err *err)
{
	size_t held = parser->held_len, room = sizeof parser->held - held, line_len = 0;
	if (!held)
		return feed_fresh(parser, data, len, err);
	hold(parser, data, len < room ? len : room);
	enum line line = judge(parser, parser->held, parser->held_len, &line_len);
	if (line == MORE_NEEDED)
		return (ssize_t)len;
	parser->held_len = 0;
	if (line == NOT_BOUNDARY) {
		/* Of what was held, only its first byte could begin a boundary. */
		if (emit(parser, parser->held, held, err) < 0)
			return -1;
		return feed_fresh(parser, data, len, err);
	}
	if (pass_boundary(parser, line, err) < 0)
		return -1;
	return (ssize_t)(line_len - held);
}

/* --- the parser ------------------------------------------------------------------------------- */

struct multipart *multipart_new(const char *content_type, const struct multipart_ops *ops,
				void *arg, struct err *err)
{
	struct multipart *parser = xcalloc(1, sizeof *parser);
	if (find_boundary(parser, content_type, err) < 0) {
		free(parser);
		return NULL;
	}
	parser->ops = ops;
	parser->arg = arg;
	/* The first boundary needs no line break before it. */
	hold(parser, "\r\n", 2);
	return parser;
}

int multipart_feed(struct multipart *parser, const char *data, size_t len, struct err *err)
{
	while (len && parser->state != EPILOGUE) {
		if (parser->state == FAILED)
			return multipart_finish(parser, err);
		ssize_t used = parser->state == HEAD ? feed_head(parser, data, len, err)
						     : feed_data(parser, data, len, err);
		if (used < 0) {
			parser->state = FAILED;
			return -1;
		}
		data += used;
		len -= (size_t)used;
	}
	return 0;
}

int multipart_finish(struct multipart *parser, struct err *err)
{
	if (parser->state == EPILOGUE)
		return 0;
	return err_set(err, ERR_BAD_REQUEST,
		       parser->state == FAILED ? "the form could not be parsed"
					       : "the form ends before its closing boundary");
}

void multipart_free(struct multipart *parser)
{
	free(parser);
}
