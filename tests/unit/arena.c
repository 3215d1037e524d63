#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "tap.h"

static char order[16], a[] = "a", b[] = "b", c[] = "c", d[] = "d";

static void note(void *arg)
{
	strcat(order, arg);
}

static void note_and_defer(void *arg)
{
	strcat(order, "x");
	arena_defer(arg, note, b);
}

static void allocations(void)
{
	struct arena arena = { 0 };
	bool aligned = true, zero = true, kept = true;
	unsigned char *all[300];
	for (size_t i = 0; i < 300; i++) {
		all[i] = arena_alloc(&arena, i * 17 % 257 + 1);
		aligned = aligned && (uintptr_t)all[i] % _Alignof(max_align_t) == 0;
		for (size_t k = 0; k < i * 17 % 257 + 1; k++)
			zero = zero && !all[i][k];
		memset(all[i], (int)(i % 255 + 1), i * 17 % 257 + 1);
	}
	for (size_t i = 0; i < 300; i++)
		for (size_t k = 0; k < i * 17 % 257 + 1; k++)
			kept = kept && all[i][k] == i % 255 + 1;
	CHECK(aligned);
	CHECK(zero);
	CHECK(kept);
	char *large = arena_alloc(&arena, 1 << 20);
	CHECK(!large[0] && !large[(1 << 20) - 1]);
	memset(large, 1, 1 << 20);
	char *after = arena_alloc(&arena, 8);
	CHECK(!memcmp(after, "\0\0\0\0\0\0\0\0", 8));
	CHECK(arena_alloc(&arena, 0) != NULL);
	arena_done(&arena);
	CHECK(!arena.blocks && !arena.cleanups && !arena.used && !arena.room);
}

static void strings(void)
{
	struct arena arena = { 0 };
	char long_text[5000];
	memset(long_text, 'a', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = 0;
	CHECK_STR(arena_strdup(&arena, "hello"), "hello");
	CHECK_STR(arena_strdup(&arena, ""), "");
	CHECK_STR(arena_strndup(&arena, "hello", 4), "hell");
	CHECK_STR(arena_strndup(&arena, NULL, 0), "");
	CHECK(!memcmp(arena_strndup(&arena, "a\0b", 3), "a\0b", 4));
	CHECK_STR(arena_printf(&arena, "%s-%d", "x", 42), "x-42");
	CHECK_STR(arena_printf(&arena, "%s", ""), "");
	CHECK_STR(arena_printf(&arena, "%s", long_text), long_text);
	arena_done(&arena);
}

static void deferred(void)
{
	struct arena arena = { 0 };
	arena_defer(&arena, note, a);
	arena_alloc(&arena, 4000);
	arena_defer(&arena, note_and_defer, &arena);
	arena_defer(&arena, note, c);
	CHECK_STR(order, "");
	arena_done(&arena);
	CHECK_STR(order, "cxba");
	arena_done(&arena);
	CHECK_STR(order, "cxba");
	arena_defer(&arena, note, d);
	arena_done(&arena);
	CHECK_STR(order, "cxbad");
}

int main(void)
{
	allocations();
	strings();
	deferred();
	return tap_done();
}
