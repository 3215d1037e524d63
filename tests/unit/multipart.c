#include "net/multipart.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "tap.h"

/* --- what the parser reports, written down ---------------------------------------------------- */

static int on_part(void *arg, const struct multipart_part *part, struct err *err)
{
	if (!strcmp(part->name, "refused"))
		return err_set(err, ERR_CONFLICT, "no");
	return buf_printf(arg, "{%s|%s|%s}", part->name, part->filename ? part->filename : "-",
			  part->content_type);
}

static int on_data(void *arg, const char *data, size_t len, struct err *err)
{
	if (!len)
		return err_set(err, ERR_INTERNAL, "empty data");
	if (memchr(data, '\1', len))
		return err_set(err, ERR_CONFLICT, "no data");
	return buf_add(arg, data, len);
}

static int on_end(void *arg, struct err *err)
{
	struct buf *log = arg;
	if (log->len >= 2 && !memcmp(log->data + log->len - 2, "!!", 2))
		return err_set(err, ERR_CONFLICT, "no end");
	return buf_str(log, "{/}");
}

static const struct multipart_ops ops = { on_part, on_data, on_end };

/* Parses in pieces that next() gives the sizes of. The result ends with "ok" or the error. */
static void parse(struct buf *log, const char *type, const char *body, size_t len,
		  size_t (*next)(size_t at, size_t arg), size_t arg)
{
	struct err err = { 0 };
	struct multipart *parser = multipart_new(type, &ops, log, &err);
	int ret = parser ? 0 : -1;
	for (size_t at = 0, n; ret == 0 && at < len; at += n) {
		n = next(at, arg);
		if (n > len - at)
			n = len - at;
		/* A copy of its own, so that a sanitizer sees what is read beyond it. */
		auto_free char *copy = xmalloc(n);
		memcpy(copy, body + at, n);
		ret = multipart_feed(parser, copy, n, &err);
	}
	if (ret == 0)
		ret = multipart_finish(parser, &err);
	buf_printf(log, ret == 0 ? "ok" : "%d %s", err_status(err.code), err.msg);
	multipart_free(parser);
}

static size_t whole(size_t at, size_t arg)
{
	(void)at, (void)arg;
	return (size_t)-1;
}

static size_t even(size_t at, size_t size)
{
	(void)at;
	return size;
}

static size_t in_two(size_t at, size_t first)
{
	return at < first ? first - at : (size_t)-1;
}

static size_t at_random(size_t at, size_t most)
{
	(void)at;
	return 1 + (size_t)rand() % most;
}

static bool same(struct buf *log, const struct buf *want, const char *how, size_t arg)
{
	bool ok = log->len == want->len && !memcmp(log->data, want->data, want->len);
	if (!ok)
		printf("# %s %zu gave '%s'\n#   want '%s'\n", how, arg, log->data, want->data);
	buf_done(log);
	return ok;
}

/* Whether the body gives exactly want, however it is split. */
static bool gives(const char *type, const char *body, size_t len, const struct buf *want)
{
	auto_buf struct buf log = BUF(1 << 24);
	parse(&log, type, body, len, whole, 0);
	bool ok = same(&log, want, "whole", 0);
	for (size_t size = 1; ok && size < 8; size++) {
		parse(&log, type, body, len, even, size);
		ok = same(&log, want, "pieces of", size);
	}
	for (size_t first = 1; ok && len < 1000 && first < len; first++) {
		parse(&log, type, body, len, in_two, first);
		ok = same(&log, want, "split at", first);
	}
	for (size_t i = 1; ok && i < 20; i++) {
		parse(&log, type, body, len, at_random, i * i);
		ok = same(&log, want, "random up to", i * i);
	}
	return ok;
}

#define TYPE "multipart/form-data; boundary=b0"
#define GIVES_TYPE(type, body, text)                                                        \
	tap_check(gives(type, body, sizeof body - 1,                                        \
			&(struct buf){ .data = (char[]){ text }, .len = sizeof text - 1 }), \
		  __FILE__, __LINE__, "the form gives what it should")
#define GIVES(body, text) GIVES_TYPE(TYPE, body, text)

#define NAME(name)  "Content-Disposition: form-data; name=" name "\r\n"
#define FIELD(data) "--b0\r\n" NAME("\"a\"") "\r\n" data
#define A           "{a|-|text/plain}"
#define CUT         "400 the form ends before its closing boundary"

/* --- the tests -------------------------------------------------------------------------------- */

static void forms(void)
{
	GIVES(FIELD("one") "\r\n--b0--\r\n", A "one{/}ok");
	GIVES(FIELD("one") "\r\n--b0--", A "one{/}ok");
	GIVES(FIELD("") "\r\n--b0--", A "{/}ok");
	GIVES(FIELD("one") "\r\n" FIELD("two") "\r\n" FIELD("") "\r\n" FIELD("4") "\r\n--b0--",
	      A "one{/}" A "two{/}" A "{/}" A "4{/}ok");
	GIVES("--b0--", "ok");
	GIVES("--b0--\r\n", "ok");
	GIVES("\r\n--b0--\r\n", "ok");
	GIVES("--b0\r\n"
	      "Content-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n"
	      "Content-Type: image/png\r\n"
	      "\r\n"
	      "\x89PNG\r\n\x1a\n\0\0\xff"
	      "\r\n--b0\r\n"
	      "Content-Disposition: form-data; name=\"path\"\r\n"
	      "\r\n"
	      "/tmp/x"
	      "\r\n--b0--\r\n",
	      "{file|a.png|image/png}\x89PNG\r\n\x1a\n\0\0\xff{/}{path|-|text/plain}/tmp/x{/}ok");
	/* The line break before the first boundary of an empty part may end its headers. */
	GIVES("--b0\r\n" NAME("a") "\r\n--b0\r\n" NAME("b") "\r\n\r\n--b0--",
	      A "{/}{b|-|text/plain}{/}ok");
}

static void around(void)
{
	GIVES("preamble" FIELD("x"), CUT);
	GIVES("preamble\r\n" FIELD("x") "\r\n--b0--", A "x{/}ok");
	GIVES("two\r\nlines --b0\r\n--b1\r\n\r\n--b0x\r\n" FIELD("x") "\r\n--b0--", A "x{/}ok");
	GIVES(FIELD("x") "\r\n--b0--epilogue\r\n--b0\r\n\r\n\1", A "x{/}ok");
	GIVES(FIELD("x") "\r\n--b0-- \r\nepilogue\r\n--b0--", A "x{/}ok");
	GIVES("--b0  \t \r\n" NAME("a") "\r\nx\r\n--b0\t\r\n" NAME("a") "\r\ny\r\n--b0--",
	      A "x{/}" A "y{/}ok");
}

/* What begins like a boundary but is data. */
static void look_alikes(void)
{
#define SAME(data) GIVES(FIELD(data) "\r\n--b0--", A data "{/}ok")
	SAME("\r");
	SAME("\n");
	SAME("\r\n");
	SAME("\r\n\r\n");
	SAME("\r\r\n\r\r\n\n");
	SAME("-");
	SAME("--");
	SAME("\r\n-");
	SAME("\r\n--");
	SAME("\r\n--b");
	SAME("\r\n--b\r\n--b");
	SAME("\r\n--b\r\n--b\r\n--\r\n-\r\n\r");
	SAME("x--b0--");
	SAME("x--b0\r\n");
	SAME("\n--b0--");
	SAME("\r--b0--");
	SAME("\r\n--b1--");
	SAME("\r\n--B0--");
	SAME("\r\n --b0--");
	SAME("\r\n---b0--");
	SAME("\r\n--b00--");
	SAME("\r\n--b0x\r\n");
	SAME("\r\n--b0-\r\n");
	SAME("\r\n--b0-x-");
	SAME("\r\n--b0 x\r\n");
	SAME("\r\n--b0 --");
	SAME("\r\n--b0\n");
	SAME("\r\n--b0\rx");
	SAME("\r\n--b0\r\r\n");
	SAME("\r\n--b0 \t\r");
	SAME("\r\n--b\r\n--b0\r\r\n--b0x\r\n--b0-\r\n--b0 y");
#undef SAME
#define SAME(data)                                         \
	GIVES_TYPE("multipart/form-data; boundary=--b--b", \
		   "----b--b\r\n" NAME("a") "\r\n" data "\r\n----b--b--", A data "{/}ok")
	SAME("\r\n----b--");
	SAME("\r\n----b----b--b");
	SAME("\r\n--b--b--");
	SAME("\r\n------b--b--");
#undef SAME
	/* Right after the headers, where an empty part's boundary could be. */
	GIVES(FIELD("--b1") "\r\n--b0--", A "--b1{/}ok");
	GIVES(FIELD("--b0x") "\r\n--b0--", A "--b0x{/}ok");
	GIVES(FIELD("--b0--"), A "{/}ok");
}

static void padding(void)
{
	char spaces[66];
	memset(spaces, ' ', 65);
	spaces[65] = 0;
	for (size_t n = 63; n <= 65; n++) {
		auto_buf struct buf body = BUF(1000), want = BUF(1000);
		buf_printf(&body, FIELD("x") "\r\n--b0%.*s\r\n" NAME("a") "\r\ny\r\n--b0--", (int)n,
			   spaces);
		if (n <= 64)
			buf_str(&want, A "x{/}" A "y{/}ok");
		else
			buf_printf(&want, A "x\r\n--b0%s\r\n" NAME("a") "\r\ny{/}ok", spaces);
		CHECK(gives(TYPE, body.data, body.len, &want));
	}
}

static void cut_off(void)
{
	GIVES("", CUT);
	GIVES("--", CUT);
	GIVES("--b0", CUT);
	GIVES("--b0-", CUT);
	GIVES("--b0\r\n", CUT);
	GIVES("no form at all", CUT);
	GIVES("--b0\r\n" NAME("a"), CUT);
	GIVES(FIELD("x"), A "x" CUT);
	GIVES(FIELD("x\r"), A "x" CUT);
	GIVES(FIELD("x\r\n--b0"), A "x" CUT);
	GIVES(FIELD("x\r\n--b0-"), A "x" CUT);
	GIVES(FIELD("x\r\n--b0\r"), A "x" CUT);
	GIVES(FIELD("x\r\n--b0\r\n"), A "x{/}" CUT);
}

#define ONE(header, want) GIVES("--b0\r\n" header "\r\nx\r\n--b0--", want)
#define PART(text)        text "x{/}ok"

static void headers(void)
{
	ONE(NAME("a"), PART("{a|-|text/plain}"));
	ONE(NAME("\"a b\""), PART("{a b|-|text/plain}"));
	ONE(NAME("a b "), PART("{a b|-|text/plain}"));
	ONE(NAME("\"\""), PART("{|-|text/plain}"));
	ONE(NAME("\"a;b=\\\"c\\\"\\\\\\d\""), PART("{a;b=\"c\"\\\\d|-|text/plain}"));
	ONE(NAME("\"caf\xe9\""), PART("{caf\xe9|-|text/plain}"));
	ONE(NAME("\"\xe2\x82\xac\""), PART("{\xe2\x82\xac|-|text/plain}"));
	ONE(NAME("a; filename=\"\""), PART("{a||text/plain}"));
	ONE(NAME("a; filename=\"C:\\dir\\f.txt\""), PART("{a|C:\\dir\\f.txt|text/plain}"));
	ONE(NAME("a; filename=\"q\\\"\\\\.txt\""), PART("{a|q\"\\.txt|text/plain}"));
	ONE(NAME("a; filename=\"a%22b\""), PART("{a|a%22b|text/plain}"));
	ONE(NAME("a; filename=plain.txt"), PART("{a|plain.txt|text/plain}"));
	ONE(NAME("a; filename=\"../../etc/passwd\""), PART("{a|../../etc/passwd|text/plain}"));
	ONE(NAME("a;filename=\"f\";"), PART("{a|f|text/plain}"));
	ONE(NAME("a ; filename = \"f\" ; x=y"), PART("{a|f|text/plain}"));
	ONE("content-DISPOSITION:Form-Data;\tNAME=a;FileName=f\r\n", PART("{a|f|text/plain}"));
	ONE("X-Other: 1\r\n" NAME("a") "Content-Length: 5\r\nX-Other: 2\r\nEmpty:\r\n",
	    PART("{a|-|text/plain}"));
	ONE(NAME("a") "Content-Type:  text/html; charset=utf-8 \r\n",
	    PART("{a|-|text/html; charset=utf-8}"));
	ONE(NAME("a") "Content-Type:\r\n", PART("{a|-|text/plain}"));
	ONE(NAME("a") "Content-Transfer-Encoding: binary\r\n", PART(A));
	ONE(NAME("a") "Content-Transfer-Encoding: 8BIT\r\n", PART(A));
	ONE(NAME("a") "Content-Transfer-Encoding: 7bit\r\n", PART(A));
}

static void long_filenames(void)
{
	ONE(NAME("a; filename*=UTF-8''%e2%82%ac%20rates"),
	    PART("{a|\xe2\x82\xac rates|text/plain}"));
	ONE(NAME("a; filename=\"fallback\"; filename*=utf-8'en'real"), PART("{a|real|text/plain}"));
	ONE(NAME("a; filename*=UTF-8''real; filename=\"fallback\""), PART("{a|real|text/plain}"));
	ONE(NAME("a; filename*=\"UTF-8''real\""), PART("{a|real|text/plain}"));
	ONE(NAME("a; filename*=UTF-8''a+b'c"), PART("{a|a+b'c|text/plain}"));
#define BAD "400 a part's filename* is not valid UTF-8''..."
	ONE(NAME("a; filename*=real"), BAD);
	ONE(NAME("a; filename*=UTF-8'real"), BAD);
	ONE(NAME("a; filename*=UTF-16''real"), BAD);
	ONE(NAME("a; filename*=UTF-8x''real"), BAD);
	ONE(NAME("a; filename*=iso-8859-1''%e9"), BAD);
	ONE(NAME("a; filename*=UTF-8''%e9"), BAD);
	ONE(NAME("a; filename*=UTF-8''%4"), BAD);
	ONE(NAME("a; filename*=UTF-8''a%00b"), BAD);
#undef BAD
}

static void bad_headers(void)
{
#define DISPOSITION "400 a part has a malformed Content-Disposition"
#define LINE        "400 a part has a malformed header line"
#define STRAY       "400 a part has a stray line break or a NUL in its headers"
	ONE("", "400 a part has no Content-Disposition");
	ONE("Content-Type: text/plain\r\n", "400 a part has no Content-Disposition");
	ONE("Content-Disposition: form-data\r\n", "400 a part has no name");
	ONE("Content-Disposition: form-data;\r\n", "400 a part has no name");
	ONE("Content-Disposition: form-data; filename=f\r\n", "400 a part has no name");
	ONE("Content-Disposition:\r\n", DISPOSITION);
	ONE("Content-Disposition: attachment; name=a\r\n", DISPOSITION);
	ONE("Content-Disposition: name=a\r\n", DISPOSITION);
	ONE(NAME("\"a"), DISPOSITION);
	ONE(NAME("\"a\\\""), DISPOSITION);
	ONE(NAME("\"a\"b"), DISPOSITION);
	ONE(NAME("a; b"), DISPOSITION);
	ONE(NAME("a; name=b"), DISPOSITION);
	ONE(NAME("a; filename=b; filename=c"), DISPOSITION);
	ONE(NAME("a") NAME("b"), "400 a part has two Content-Disposition headers");
	ONE(NAME("a") "Content-Type: a/b\r\ncontent-type: a/b\r\n",
	    "400 a part has two content-type headers");
	ONE(NAME("a") "no colon\r\n", LINE);
	ONE(NAME("a") ": x\r\n", LINE);
	ONE(NAME("a") "Name : x\r\n", LINE);
	ONE(NAME("a") " folded: x\r\n", LINE);
	ONE(NAME("a\0b"), STRAY);
	ONE(NAME("a\nb"), STRAY);
	ONE(NAME("a\rb"), STRAY);
	ONE("\n" NAME("a"), STRAY);
#define ENCODING "400 a part's Content-Transfer-Encoding must be 7bit, 8bit or binary"
	ONE(NAME("a") "Content-Transfer-Encoding: base64\r\n", ENCODING);
	ONE(NAME("a") "Content-Transfer-Encoding: quoted-printable\r\n", ENCODING);
	ONE(NAME("a") "Content-Transfer-Encoding:\r\n", ENCODING);
}

static void refused(void)
{
	GIVES(FIELD("x") "\r\n--b0\r\n" NAME("refused") "\r\n\r\n--b0--", A "x{/}409 no");
	GIVES("--b0\r\n" NAME("a") "\r\n\1\r\n--b0--", A "409 no data");
	GIVES(FIELD("!!") "\r\n" FIELD("y") "\r\n--b0--", A "!!409 no end");
	auto_buf struct buf log = BUF(1000);
	struct err err = { 0 };
	struct multipart *parser = multipart_new(TYPE, &ops, &log, &err);
	static const char bad[] = "--b0\r\n\r\n", good[] = FIELD("x") "\r\n--b0--";
	CHECK(multipart_feed(parser, bad, sizeof bad - 1, &err) == -1);
	CHECK(multipart_feed(parser, good, sizeof good - 1, &err) == -1);
	CHECK(err.code == ERR_BAD_REQUEST);
	CHECK_STR(err.msg, "the form could not be parsed");
	CHECK(multipart_finish(parser, NULL) == -1);
	CHECK(!log.len);
	multipart_free(parser);
	multipart_free(NULL);
}

static void content_types(void)
{
#define OK(type, boundary)                     \
	GIVES_TYPE("multipart/form-data" type, \
		   "--" boundary "\r\n" NAME("a") "\r\nx\r\n--" boundary "--", A "x{/}ok")
#define SEVENTY "0123456789012345678901234567890123456789012345678901234567890123456789"
	OK("; boundary=x", "x");
	OK(";BOUNDARY=\"x\"", "x");
	OK("; charset=utf-8; boundary=x; foo=\"bar;boundary=y\"", "x");
	OK("; boundary=----WebKitFormBoundaryAbC0", "----WebKitFormBoundaryAbC0");
	OK("; boundary=\"a 'b'(c)+_,-./:=?\"", "a 'b'(c)+_,-./:=?");
	OK("; boundary=----=_Part_1/2:3?", "----=_Part_1/2:3?");
	OK("; boundary=" SEVENTY, SEVENTY);
	OK("; boundary=\"a\\\"b\"", "a\"b");
	OK("; boundary= x ", "x");
	GIVES_TYPE("Multipart/Form-Data; boundary=x", "--x--", "ok");
#define BOUNDARY "400 the boundary of multipart/form-data must be 1 to 70 printable characters"
	GIVES_TYPE("multipart/form-data; boundary=", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data; boundary=\"\"", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data; boundary=" SEVENTY "x", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data; boundary=\"a \"", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data; boundary=\"a\r\nb\"", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data; boundary=\xc3\xbc", "", BOUNDARY);
	GIVES_TYPE("multipart/form-data", "", "400 multipart/form-data has no boundary");
	GIVES_TYPE("multipart/form-data; x=y", "", "400 multipart/form-data has no boundary");
	GIVES_TYPE("multipart/form-data; boundary=a; boundary=b", "",
		   "400 multipart/form-data has two boundaries");
	GIVES_TYPE("multipart/form-data; boundary=\"a", "", "400 the Content-Type is malformed");
	GIVES_TYPE("multipart/form-data; boundary", "", "400 the Content-Type is malformed");
	GIVES_TYPE("multipart/mixed; boundary=a", "", "415 the body must be multipart/form-data");
	GIVES_TYPE("text/plain", "", "415 the body must be multipart/form-data");
	GIVES_TYPE("", "", "415 the body must be multipart/form-data");
	struct err err = { 0 };
	CHECK(!multipart_new(NULL, &ops, NULL, &err) && err.code == ERR_MEDIA_TYPE);
}

/* A head of exactly len bytes, of which the empty line is no part. */
static void add_head(struct buf *to, size_t len)
{
	static const char fixed[] = NAME("a") "X: ";
	buf_str(to, fixed);
	for (size_t i = sizeof fixed - 1 + 2; i < len; i++)
		buf_str(to, "x");
	buf_str(to, "\r\n");
}

static void limits(void)
{
	for (size_t len = MULTIPART_HEAD_MAX - 2; len <= MULTIPART_HEAD_MAX; len++) {
		auto_buf struct buf body = BUF(20000), want = BUF(1000);
		buf_str(&body, "--b0\r\n");
		add_head(&body, len);
		buf_str(&body, "\r\nx\r\n--b0--");
		buf_str(&want, len + 2 <= MULTIPART_HEAD_MAX
				       ? A "x{/}ok"
				       : "413 a part has more than 8192 bytes of headers");
		CHECK(gives(TYPE, body.data, body.len, &want));
	}
	for (int parts = MULTIPART_PARTS_MAX; parts <= MULTIPART_PARTS_MAX + 1; parts++) {
		auto_buf struct buf body = BUF(100000), want = BUF(100000);
		for (int i = 0; i < parts; i++)
			buf_str(&body, FIELD("x") "\r\n");
		buf_str(&body, "--b0--");
		for (int i = 0; i < MULTIPART_PARTS_MAX; i++)
			buf_str(&want, A "x{/}");
		buf_str(&want, parts == MULTIPART_PARTS_MAX
				       ? "ok"
				       : "413 the form has more than 1000 parts");
		CHECK(gives(TYPE, body.data, body.len, &want));
	}
}

/* Data made of a boundary's own characters, without the boundary itself. */
static void random_data(void)
{
	static const char alphabet[] = "\r\n--b0 \t";
	bool all = true;
	for (int round = 0; round < 200; round++) {
		char data[200];
		size_t len = (size_t)rand() % sizeof data;
		for (size_t i = 0; i < len; i++)
			data[i] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
		if (memmem(data, len, "--b0", 4))
			continue;
		auto_buf struct buf body = BUF(1000), want = BUF(1000);
		buf_str(&body, FIELD(""));
		buf_add(&body, data, len);
		buf_str(&body, "\r\n--b0--");
		buf_str(&want, A);
		buf_add(&want, data, len);
		buf_str(&want, "{/}ok");
		all = all && gives(TYPE, body.data, body.len, &want);
	}
	CHECK(all);
	auto_buf struct buf body = BUF(1 << 20), want = BUF(1 << 20);
	buf_str(&body, FIELD(""));
	buf_str(&want, A);
	for (int i = 0; i < 100000; i++) {
		char c = (char)(rand() >> 8);
		c = c == 1 ? 2 : c; /* on_data() refuses it */
		buf_add(&body, &c, 1);
		buf_add(&want, &c, 1);
	}
	buf_str(&body, "\r\n--b0--");
	buf_str(&want, "{/}ok");
	CHECK(gives(TYPE, body.data, body.len, &want));
}

int main(void)
{
	srand(7);
	forms();
	around();
	look_alikes();
	padding();
	cut_off();
	headers();
	long_filenames();
	bad_headers();
	refused();
	content_types();
	limits();
	random_data();
	return tap_done();
}
