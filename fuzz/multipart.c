/* The first byte picks a boundary, the rest is a form: whole and in pieces it must give the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "net/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static int on_part(void *arg, const struct multipart_part *part, struct err *err)
{
	(void)err;
	return buf_printf(arg, "<%s|%s|%s>", part->name, part->filename ? part->filename : "",
			  part->content_type);
}

static int on_data(void *arg, const char *data, size_t len, struct err *err)
{
	(void)err;
	if (!len)
		abort();
	return buf_add(arg, data, len);
}

static int on_end(void *arg, struct err *err)
{
	(void)err;
	return buf_str(arg, "</>");
}

static const struct multipart_ops ops = { on_part, on_data, on_end };

/* Pieces are as long as the input's own bytes say, up to most. */
static void parse(struct buf *log, const char *type, const uint8_t *input, size_t size, size_t most)
{
	struct err err = { 0 };
	struct multipart *parser = multipart_new(type, &ops, log, &err);
	int ret = 0;
	for (size_t at = 0, n; parser && ret == 0 && at < size; at += n) {
		n = most ? 1 + (size_t)(input[size - 1 - at] ^ at) % most : size;
		n = n < size - at ? n : size - at;
		auto_free char *copy = xmalloc(n);
		memcpy(copy, input + at, n);
		ret = multipart_feed(parser, copy, n, &err);
	}
	if (parser && ret == 0)
		(void)multipart_finish(parser, &err);
	buf_printf(log, "%d %s", err.code, err.msg);
	multipart_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static const char *const types[] = {
		"multipart/form-data; boundary=b",
		"multipart/form-data; boundary=\"--b--b\"",
		"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
	};
	static const size_t most[] = { 1, 3, 17, 90, 256 };
	if (!size)
		return 0;
	/* A header itself: in what the parser takes for C text, nothing follows a NUL. */
	auto_free char *type = xasprintf("multipart/form-data%.*s", (int)(size - 1), input + 1);
	multipart_free(multipart_new(type, &ops, NULL, NULL));
	auto_buf struct buf whole = BUF(1 << 24);
	parse(&whole, types[input[0] % COUNT(types)], input + 1, size - 1, 0);
	for (size_t i = 0; i < COUNT(most); i++) {
		auto_buf struct buf split = BUF(1 << 24);
		parse(&split, types[input[0] % COUNT(types)], input + 1, size - 1, most[i]);
		if (split.len != whole.len || memcmp(split.data, whole.data, whole.len))
			abort();
	}
	return 0;
}
