/* multipart.h - a parser of multipart/form-data (RFC 7578) that is fed as the body arrives and
 * hands on each part's bytes at once, so that an upload of any size needs a few KiB. */
#pragma once
#include <stddef.h>

struct err;
struct multipart;

enum {
	MULTIPART_HEAD_MAX = 8192, /* bytes of headers in one part */
	MULTIPART_PARTS_MAX = 1000,
};

/* What the client says about a part; valid during the call only. Any bytes but NUL: a file name may
 * be a path, hold "..", or not be UTF-8. */
struct multipart_part {
	const char *name;
	const char *filename;     /* NULL for a plain field */
	const char *content_type; /* "text/plain" where the part has none */
};

/* For each part: part once, data as often as there is some (len > 0), end once; end is missing if
 * the body is malformed or cut off. What fails with -1 ends the parsing with its error. */
struct multipart_ops {
	int (*part)(void *arg, const struct multipart_part *part, struct err *err);
	int (*data)(void *arg, const char *data, size_t len, struct err *err);
	int (*end)(void *arg, struct err *err);
};

/* content_type is the request's header, whose boundary is taken. NULL when it is not
 * multipart/form-data or the boundary is missing or bad. ops must outlive the parser. */
struct multipart *multipart_new(const char *content_type, const struct multipart_ops *ops,
				void *arg, struct err *err);

/* Parses the next bytes of the body. Once it failed, it fails again. */
int multipart_feed(struct multipart *parser, const char *data, size_t len, struct err *err);

/* To be called at the end of the body: fails unless the closing boundary was seen. */
int multipart_finish(struct multipart *parser, struct err *err);

void multipart_free(struct multipart *parser); /* NULL is fine */
