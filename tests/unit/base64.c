#include "base/base64.h"

#include <stdlib.h>

#include "base/buf.h"
#include "tap.h"

typedef int codec(struct buf *to, const char *text, size_t len);

static int encode(struct buf *to, const char *text, size_t len)
{
	return base64_encode(to, text, len);
}

static int encode_url(struct buf *to, const char *text, size_t len)
{
	return base64url_encode(to, text, len);
}

static bool gives(codec *fn, const char *text, size_t len, const char *want, size_t want_len)
{
	/* Exactly enough room: no codec may ask for more than it uses. */
	auto_buf struct buf buf = BUF(1 + want_len);
	buf_str(&buf, "<");
	int ret = fn(&buf, text, len);
	bool ok = ret == 0 && buf.len == 1 + want_len && !memcmp(buf.data + 1, want, want_len) &&
		  !buf.data[buf.len];
	if (!ok)
		printf("# '%.*s' gave %d '%s'\n", (int)len, text, ret, buf.data);
	return ok;
}

/* A refused text leaves the buffer as it was. */
static bool refuses(codec *fn, const char *text)
{
	auto_buf struct buf buf = BUF(1000);
	buf_str(&buf, "<");
	return fn(&buf, text, strlen(text)) == -1 && buf.len == 1 && !strcmp(buf.data, "<") &&
	       !buf.full;
}

#define GIVES(fn, text, want) CHECK(gives(fn, text, sizeof text - 1, want, sizeof want - 1))

static void encoding(void)
{
	GIVES(encode, "", "");
	GIVES(encode, "f", "Zg==");
	GIVES(encode, "fo", "Zm8=");
	GIVES(encode, "foo", "Zm9v");
	GIVES(encode, "foob", "Zm9vYg==");
	GIVES(encode, "fooba", "Zm9vYmE=");
	GIVES(encode, "foobar", "Zm9vYmFy");
	GIVES(encode, "\xff\xef\xbe\0\xfb\xf0", "/+++APvw");
	GIVES(encode_url, "\xff\xef\xbe\0\xfb\xf0", "_---APvw");
	GIVES(encode_url, "", "");
	GIVES(encode_url, "f", "Zg");
	GIVES(encode_url, "fo", "Zm8");
	GIVES(encode_url, "foo", "Zm9v");
	GIVES(encode_url, "foob", "Zm9vYg");
}

static void decoding(void)
{
	GIVES(base64_decode, "", "");
	GIVES(base64_decode, "Zg==", "f");
	GIVES(base64_decode, "Zg", "f");
	GIVES(base64_decode, "Zm8=", "fo");
	GIVES(base64_decode, "Zm8", "fo");
	GIVES(base64_decode, "Zm9v", "foo");
	GIVES(base64_decode, "Zm9vYmFy", "foobar");
	GIVES(base64_decode, " Zm9v\r\nYm\tE = \n", "fooba");
	GIVES(base64_decode, "Zg=\n=", "f");
	GIVES(base64_decode, " \n", "");
	GIVES(base64_decode, "/+++APvw", "\xff\xef\xbe\0\xfb\xf0");
	GIVES(base64url_decode, "_---APvw", "\xff\xef\xbe\0\xfb\xf0");
	GIVES(base64url_decode, "Zm9vYg", "foob");
	GIVES(base64url_decode, "", "");
}

static void refusing(void)
{
	CHECK(refuses(base64_decode, "Z"));
	CHECK(refuses(base64_decode, "Zm9vY"));
	CHECK(refuses(base64_decode, "Zg="));
	CHECK(refuses(base64_decode, "Zg==="));
	CHECK(refuses(base64_decode, "Zm8=="));
	CHECK(refuses(base64_decode, "Zm9v="));
	CHECK(refuses(base64_decode, "Zm9v===="));
	CHECK(refuses(base64_decode, "="));
	CHECK(refuses(base64_decode, "===="));
	CHECK(refuses(base64_decode, "Zg==Zg=="));
	CHECK(refuses(base64_decode, "Z=g="));
	CHECK(refuses(base64_decode, "Zm9v!"));
	CHECK(refuses(base64_decode, "Zm9vZm9vZm9v-"));
	CHECK(refuses(base64_decode, "Zm9_"));
	CHECK(refuses(base64_decode, "Zm9\xc3\xa9"));
	CHECK(refuses(base64_decode, "Zh=="));
	CHECK(refuses(base64_decode, "Zm9="));
	CHECK(refuses(base64url_decode, "Zg=="));
	CHECK(refuses(base64url_decode, "Zm9v\n"));
	CHECK(refuses(base64url_decode, "Zm9+"));
	CHECK(refuses(base64url_decode, "Zm9/"));
	CHECK(refuses(base64url_decode, "Zh"));
}

static void full(void)
{
	auto_buf struct buf buf = BUF(3);
	CHECK(base64_encode(&buf, "a", 1) == -1 && buf.full && !buf.len);
	buf_done(&buf);
	CHECK(base64_decode(&buf, "Zm9vYg==", 8) == -1 && buf.full && !buf.len);
}

static void round_trip(void)
{
	char data[400];
	bool same = true, same_url = true;
	srand(1);
	for (size_t len = 0; len < sizeof data; len++) {
		data[len] = (char)(rand() >> 8);
		auto_buf struct buf text = BUF(1000), back = BUF(1000);
		base64_encode(&text, data, len);
		base64_decode(&back, text.data, text.len);
		same = same && back.len == len && !memcmp(back.data, data, len);
		buf_done(&text);
		buf_done(&back);
		base64url_encode(&text, data, len);
		base64url_decode(&back, text.data, text.len);
		same_url = same_url && back.len == len && !memcmp(back.data, data, len);
	}
	CHECK(same);
	CHECK(same_url);
}

int main(void)
{
	encoding();
	decoding();
	refusing();
	full();
	round_trip();
	return tap_done();
}
