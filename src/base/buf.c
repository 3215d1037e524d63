#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

void buf_init(struct buf *buf, size_t cap)
{
	*buf = BUF(cap);
}

void buf_done(struct buf *buf)
{
	free(buf->data);
	*buf = BUF(buf->cap);
}

char *buf_grow(struct buf *buf, size_t n)
{
	if (buf->full || n > buf->cap - buf->len) {
		buf->full = true;
		return NULL;
	}
	if (buf->len + n + 1 > buf->room) {
		size_t room = buf->room ? buf->room : 256;
		while (room < buf->len + n + 1)
			room *= 2;
		buf->data = xrealloc(buf->data, room);
		buf->room = room;
	}
	return buf->data + buf->len;
}

int buf_add(struct buf *buf, const void *data, size_t len)
{
	char *to = buf_grow(buf, len);
	if (!to)
		return -1;
	if (len)
		memcpy(to, data, len);
	to[len] = 0;
	buf->len += len;
	return 0;
}

int buf_str(struct buf *buf, const char *text)
{
	return buf_add(buf, text, strlen(text));
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	char small[512];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(small, sizeof small, format, args);
	va_end(args);
	if (len < 0)
		return -1;
	if ((size_t)len < sizeof small)
		return buf_add(buf, small, (size_t)len);
	char *to = buf_grow(buf, (size_t)len);
	if (!to)
		return -1;
	va_start(args, format);
	vsnprintf(to, (size_t)len + 1, format, args);
	va_end(args);
	buf->len += (size_t)len;
	return 0;
}
