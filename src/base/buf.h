/* buf.h - a growing byte buffer with a cap. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data; /* always NUL-terminated once something was added */
	size_t len, room, cap;
	bool full; /* something did not fit under the cap, and was left out */
};

#define BUF(limit) ((struct buf){ .cap = (limit) })

void buf_init(struct buf *buf, size_t cap);
void buf_done(struct buf *buf);

/* Makes space for n more bytes and returns where they go; NULL, setting full, beyond the cap. */
char *buf_grow(struct buf *buf, size_t n);

/* Each returns 0, or -1 once the buffer is full. */
int buf_add(struct buf *buf, const void *data, size_t len);
int buf_str(struct buf *buf, const char *text);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void buf_own_done(struct buf *buf)
{
	buf_done(buf);
}
#define auto_buf __attribute__((cleanup(buf_own_done)))
