#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *checked(void *ptr)
{
	if (!ptr) {
		static const char text[] = "aio: out of memory\n";
		(void)!write(2, text, sizeof text - 1);
		abort();
	}
	return ptr;
}

void *xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *ptr, size_t size)
{
	return checked(realloc(ptr, size ? size : 1));
}

char *xstrdup(const char *text)
{
	return checked(strdup(text));
}

char *xstrndup(const char *text, size_t len)
{
	return checked(strndup(text, len));
}

char *xasprintf(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return checked(text);
}
