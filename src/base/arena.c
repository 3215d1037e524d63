#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

enum { BLOCK_SIZE = 2048, ALIGN = alignof(max_align_t) };

struct arena_block {
	struct arena_block *older;
	alignas(max_align_t) char data[];
};

struct arena_cleanup {
	struct arena_cleanup *older;
	void (*fn)(void *);
	void *arg;
};

void *arena_alloc(struct arena *arena, size_t size)
{
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (!arena->blocks || size > arena->room - arena->used) {
		size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
		struct arena_block *block = xmalloc(sizeof *block + room);
		block->older = arena->blocks;
		arena->blocks = block;
		arena->room = room;
		arena->used = 0;
	}
	void *ptr = arena->blocks->data + arena->used;
	arena->used += size;
	memset(ptr, 0, size);
	return ptr;
}

char *arena_strndup(struct arena *arena, const char *text, size_t len)
{
	char *copy = arena_alloc(arena, len + 1);
	if (len)
		memcpy(copy, text, len);
	return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
	return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	char small[128];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(small, sizeof small, format, args);
	va_end(args);
	if (len >= 0 && (size_t)len < sizeof small)
		return arena_strndup(arena, small, (size_t)len);
	char *text = arena_alloc(arena, (size_t)(len < 0 ? 0 : len) + 1);
	va_start(args, format);
	vsnprintf(text, (size_t)(len < 0 ? 0 : len) + 1, format, args);
	va_end(args);
	return text;
}

void arena_defer(struct arena *arena, void (*fn)(void *), void *arg)
{
	struct arena_cleanup *cleanup = arena_alloc(arena, sizeof *cleanup);
	*cleanup = (struct arena_cleanup){ arena->cleanups, fn, arg };
	arena->cleanups = cleanup;
}

void arena_done(struct arena *arena)
{
	/* One that runs may defer another. */
	for (struct arena_cleanup *c; (c = arena->cleanups);) {
		arena->cleanups = c->older;
		c->fn(c->arg);
	}
	for (struct arena_block *block = arena->blocks, *older; block; block = older) {
		older = block->older;
		free(block);
	}
	*arena = (struct arena){ 0 };
}
