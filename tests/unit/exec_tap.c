#include "host/exec_tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "tap.h"

static const char *read_body(const char *body)
{
	static char to[EXEC_TAP_ROOM];
	auto_free char *copy = xstrdup(body);
	exec_tap_read(copy, strlen(copy), false, to);
	return to;
}

static void test_bodies(void)
{
	CHECK_STR(read_body("{\"command\":\"ls -l\",\"id\":\"a\"}"), "ls -l");
	CHECK_STR(read_body("{\"code\":\"print(1)\",\"command\":3}"), "print(1)");
	CHECK_STR(read_body("{\"command\":\"export API_KEY=abc; ls\"}"), "export API_KEY=***; ls");
	CHECK_STR(read_body("{\"command\":\"ls"), "");
	CHECK_STR(read_body("[\"command\"]"), "");
	CHECK_STR(read_body(""), "");
}

static void test_cut(void)
{
	auto_free char *body = xmalloc(2048);
	size_t len = (size_t)sprintf(body, "{\"command\":\"");
	for (int i = 0; i < 300; i++)
		len += (size_t)sprintf(body + len, "ü");
	strcpy(body + len, "\"}");
	CHECK(strlen(read_body(body)) == EXEC_TAP_CHARACTERS * strlen("ü") + strlen("…"));
	CHECK(!strcmp(read_body(body) + EXEC_TAP_CHARACTERS * strlen("ü"), "…"));
}

/* As a client sends it, in a buffer of exactly its size. */
static void test_frames(void)
{
	static const char text[] = "{\"command\":\"true\"}";
	const size_t text_len = sizeof text - 1, len = 6 + text_len;
	char *frame = xmalloc(len), to[EXEC_TAP_ROOM];
	memcpy(frame, "\x81\0key!", 6);
	frame[1] = (char)(0x80 | text_len);
	for (size_t i = 0; i < text_len; i++)
		frame[6 + i] = text[i] ^ frame[2 + i % 4];
	for (size_t n = 0; n < len; n++)
		CHECK(!exec_tap_whole(frame, n));
	CHECK(exec_tap_whole(frame, len));
	exec_tap_read(frame, len, true, to);
	CHECK_STR(to, "true");
	frame[1] &= 0x7f; /* not masked: not a client's */
	CHECK(!exec_tap_whole(frame, len));
	frame[1] = (char)0xff; /* of 64 bits */
	CHECK(!exec_tap_whole(frame, len));
	free(frame);
}

int main(void)
{
	test_bodies();
	test_cut();
	test_frames();
	return tap_done();
}
