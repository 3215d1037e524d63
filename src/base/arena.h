/* arena.h - memory that lives as long as one call, freed at once. */
#pragma once
#include <stddef.h>

struct arena {
	struct arena_block *blocks;
	struct arena_cleanup *cleanups;
	size_t used, room; /* of the newest block */
};

void *arena_alloc(struct arena *arena, size_t size) __attribute__((returns_nonnull));
char *arena_strdup(struct arena *arena, const char *text) __attribute__((returns_nonnull));
char *arena_strndup(struct arena *arena, const char *text, size_t len)
	__attribute__((returns_nonnull));
char *arena_printf(struct arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* Runs fn(arg) when the arena is done: the newest first. */
void arena_defer(struct arena *arena, void (*fn)(void *), void *arg);

/* Frees everything; the arena can be used again. */
void arena_done(struct arena *arena);
