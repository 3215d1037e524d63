/* own.h - memory that is never NULL, and locals that free or close themselves. */
#pragma once
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Out of memory aborts, so no caller checks; every size a client chooses is capped before. */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *ptr, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

static inline void own_free(void *ptr)
{
	free(*(void **)ptr);
}

static inline void own_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define auto_free  __attribute__((cleanup(own_free)))
#define auto_close __attribute__((cleanup(own_close)))

/* Gives away what an auto_free pointer holds. */
#define TAKE(ptr)                           \
	({                                  \
		__typeof__(ptr) p_ = (ptr); \
		(ptr) = NULL;               \
		p_;                         \
	})

/* Gives away what an auto_close descriptor holds. */
#define TAKE_FD(fd)            \
	({                     \
		int f_ = (fd); \
		(fd) = -1;     \
		f_;            \
	})

#define COUNT(array) (sizeof(array) / sizeof *(array))
