#include "cli/tar.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

enum {
	BLOCK = 512,
	NAME_AT = 0,
	NAME_LEN = 100,
	MODE_AT = 100,
	SIZE_AT = 124,
	TIME_AT = 136,
	NUMBER_LEN = 12,
	SUM_AT = 148,
	SUM_LEN = 8,
	TYPE_AT = 156,
	LINK_AT = 157,
	MAGIC_AT = 257,
	PREFIX_AT = 345,
	PREFIX_LEN = 155,
	PAX_MAX = 1 << 20,
};

/* ---- reading ---- */

/* All of it: 1; 0 where the stream ends before the first byte; -1. */
static int take(struct tar_in *in, char *to, size_t len, struct err *err)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = in->read(in->arg, to + got, len - got, err);
		if (n < 0)
			return -1;
		if (n == 0)
			return got ? err_set(err, ERR_BAD_REQUEST, "the archive is cut off") : 0;
		got += (size_t)n;
	}
	return 1;
}

static int skip(struct tar_in *in, int64_t len, struct err *err)
{
	char scrap[16384];
	while (len > 0) {
		size_t n = len < (int64_t)sizeof scrap ? (size_t)len : sizeof scrap;
		int got = take(in, scrap, n, err);
		if (got <= 0)
			return got < 0 ? -1
				       : err_set(err, ERR_BAD_REQUEST, "the archive is cut off");
		len -= (int64_t)n;
	}
	return 0;
}

/* Octal, or, where the first bit is set, big-endian. -1: neither. */
static int64_t number(const char *at, size_t len)
{
	const unsigned char *c = (const unsigned char *)at;
	int64_t value = 0;
	size_t i = 0;
	if (*c & 0x80) {
		value = *c & 0x3f;
		for (i = 1; i < len; i++) {
			if (value > INT64_MAX >> 8 || *c & 0x40)
				return -1;
			value = value << 8 | c[i];
		}
		return value;
	}
	while (i < len && c[i] == ' ')
		i++;
	for (; i < len && c[i] >= '0' && c[i] <= '7'; i++) {
		if (value > INT64_MAX >> 3)
			return -1;
		value = value << 3 | (c[i] - '0');
	}
	return i == len || c[i] == 0 || c[i] == ' ' ? value : -1;
}

static bool sum_is_right(const char *block)
{
	unsigned sum = 0;
	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : (unsigned char)block[i];
	return number(block + SUM_AT, SUM_LEN) == sum;
}

static void put_name(char *to, const char *from, size_t len)
{
	len = strnlen(from, len < TAR_NAME_MAX - 1 ? len : TAR_NAME_MAX - 1);
	memcpy(to, from, len);
	to[len] = 0;
}

/* The content of an entry that is about the next one. */
static char *take_words(struct tar_in *in, int64_t size, int64_t max, struct err *err)
{
	if (size > max) {
		(void)err_set(err, ERR_BAD_REQUEST, "the archive has a name that is too long");
		return NULL;
	}
	char *words = xcalloc((size_t)size + 1, 1);
	int got = size ? take(in, words, (size_t)size, err) : 1;
	if (got > 0 && skip(in, tar_pad(size), err) == 0)
		return words;
	if (got == 0)
		(void)err_set(err, ERR_BAD_REQUEST, "the archive is cut off");
	free(words);
	return NULL;
}

/* What entries in front of one say of it. */
struct tar_more {
	bool name, link, size, mtime;
};

static void take_pair(const char *key, const char *value, size_t len, struct tar_entry *ret,
		      struct tar_more *more)
{
	if (!strncmp(key, "path=", 5)) {
		put_name(ret->name, value, len);
		more->name = true;
	} else if (!strncmp(key, "linkpath=", 9)) {
		put_name(ret->link, value, len);
		more->link = true;
	} else if (!strncmp(key, "size=", 5)) {
		errno = 0;
		ret->size = strtoll(value, NULL, 10);
		more->size = true;
	} else if (!strncmp(key, "mtime=", 6)) {
		ret->mtime = strtoll(value, NULL, 10);
		more->mtime = true;
	}
}

/* "LENGTH KEY=VALUE\n" … */
static int take_pax(char *words, size_t len, struct tar_entry *ret, struct tar_more *more,
		    struct err *err)
{
	for (size_t at = 0; at < len;) {
		char *end;
		unsigned long long n = strtoull(words + at, &end, 10);
		size_t head = (size_t)(end + 1 - (words + at));
		bool fits = *end == ' ' && n <= len - at && head < n && words[at + n - 1] == '\n';
		char *key = end + 1, *equals = fits ? memchr(key, '=', n - head) : NULL;
		if (!equals)
			return err_set(err, ERR_BAD_REQUEST, "the archive has a bad pax header");
		char *stop = words + at + n - 1;
		*stop = 0;
		take_pair(key, equals + 1, (size_t)(stop - (equals + 1)), ret, more);
		at += n;
	}
	return 0;
}

/* 1: the block was about the next entry. */
static int take_about(struct tar_in *in, const char *block, struct tar_entry *ret,
		      struct tar_more *more, struct err *err)
{
	char type = block[TYPE_AT];
	if (!type || !strchr("LKxg", type))
		return 0;
	int64_t size = number(block + SIZE_AT, NUMBER_LEN);
	bool pax = type == 'x' || type == 'g';
	if (size < 0)
		return err_set(err, ERR_BAD_REQUEST, "the archive has a bad size");
	auto_free char *words = take_words(in, size, pax ? PAX_MAX : TAR_NAME_MAX - 1, err);
	if (!words)
		return -1;
	if (type == 'x' && take_pax(words, (size_t)size, ret, more, err) < 0)
		return -1;
	if (type == 'L' || type == 'K')
		put_name(type == 'L' ? ret->name : ret->link, words, (size_t)size);
	more->name |= type == 'L';
	more->link |= type == 'K';
	return 1;
}

static void take_name(const char *block, char *to)
{
	bool ustar = !memcmp(block + MAGIC_AT, "ustar", 6) && block[PREFIX_AT];
	size_t len = ustar ? strnlen(block + PREFIX_AT, PREFIX_LEN) : 0;
	memcpy(to, block + PREFIX_AT, len);
	if (len)
		to[len++] = '/';
	put_name(to + len, block + NAME_AT, NAME_LEN);
}

static int take_header(struct tar_in *in, const char *block, struct tar_entry *ret,
		       const struct tar_more *more, struct err *err)
{
	char type = block[TYPE_AT] ? block[TYPE_AT] : '0';
	if (!more->name)
		take_name(block, ret->name);
	if (!more->link)
		put_name(ret->link, block + LINK_AT, NAME_LEN);
	if (!more->size)
		ret->size = number(block + SIZE_AT, NUMBER_LEN);
	if (!more->mtime)
		ret->mtime = number(block + TIME_AT, NUMBER_LEN);
	ret->mode = (unsigned)number(block + MODE_AT, 8);
	ret->type = type == '7' ? TAR_FILE : strchr("0125", type) ? (enum tar_type)type : TAR_OTHER;
	if (ret->size < 0 || ret->size > INT64_MAX - BLOCK)
		return err_set(err, ERR_BAD_REQUEST, "the archive has a bad size");
	if (ret->type != TAR_FILE && ret->type != TAR_OTHER)
		ret->size = 0; /* what some programs write there is no content */
	in->left = ret->size;
	in->pad = tar_pad(ret->size);
	return 1;
}

int tar_next(struct tar_in *in, struct tar_entry *ret, struct err *err)
{
	static const char zeros[BLOCK];
	char block[BLOCK];
	struct tar_more more = { 0 };
	if (skip(in, in->left, err) < 0 || skip(in, in->pad, err) < 0)
		return -1;
	in->left = in->pad = 0;
	for (;;) {
		int got = take(in, block, BLOCK, err);
		if (got == 0)
			return err_set(err, ERR_BAD_REQUEST, "the archive is cut off");
		if (got < 0)
			return -1;
		if (!memcmp(block, zeros, BLOCK))
			return 0;
		if (!sum_is_right(block))
			return err_set(err, ERR_BAD_REQUEST, "this is not a tar archive");
		got = take_about(in, block, ret, &more, err);
		if (got <= 0)
			return got < 0 ? -1 : take_header(in, block, ret, &more, err);
	}
}

ssize_t tar_read(struct tar_in *in, void *to, size_t room, struct err *err)
{
	if (in->left < (int64_t)room)
		room = (size_t)in->left;
	if (!room)
		return 0;
	ssize_t n = in->read(in->arg, to, room, err);
	if (n == 0)
		return err_set(err, ERR_BAD_REQUEST, "the archive is cut off");
	in->left -= n > 0 ? n : 0;
	return n;
}

/* ---- writing ---- */

int tar_write(int fd, const void *data, size_t len, struct err *err)
{
	const char *at = data;
	while (len) {
		ssize_t n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "sending");
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static void put_number(char *to, size_t len, int64_t value)
{
	if (value >= 0 && value >> (3 * (len - 1)) == 0) {
		for (to[--len] = 0; len--; value >>= 3)
			to[len] = (char)('0' + (value & 7));
		return;
	}
	for (size_t i = len; i-- > 1; value >>= 8)
		to[i] = (char)(value & 0xff);
	*to = (char)(value < 0 ? 0xff : 0x80);
}

static int write_block(int fd, char type, const char *name, const char *link, int64_t size,
		       const struct tar_entry *entry, struct err *err)
{
	char block[BLOCK] = { 0 };
	unsigned sum = 0;
	memcpy(block + NAME_AT, name, strnlen(name, NAME_LEN));
	memcpy(block + LINK_AT, link, strnlen(link, NAME_LEN));
	put_number(block + MODE_AT, 8, entry->mode & 0777);
	put_number(block + 108, 8, 0); /* owner and group, which nobody keeps */
	put_number(block + 116, 8, 0);
	put_number(block + SIZE_AT, NUMBER_LEN, size);
	put_number(block + TIME_AT, NUMBER_LEN, entry->mtime > 0 ? entry->mtime : 0);
	block[TYPE_AT] = type;
	memcpy(block + MAGIC_AT, "ustar  ", 8);
	memset(block + SUM_AT, ' ', SUM_LEN);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)block[i];
	put_number(block + SUM_AT, 7, sum);
	return tar_write(fd, block, BLOCK, err);
}

static int write_long(int fd, char type, const char *text, const struct tar_entry *entry,
		      struct err *err)
{
	static const char zeros[BLOCK];
	size_t len = strlen(text) + 1;
	if (len <= NAME_LEN)
		return 0;
	if (write_block(fd, type, "././@LongLink", "", (int64_t)len, entry, err) < 0 ||
	    tar_write(fd, text, len, err) < 0)
		return -1;
	return tar_write(fd, zeros, tar_pad((int64_t)len), err);
}

int tar_write_header(int fd, const struct tar_entry *entry, struct err *err)
{
	if (write_long(fd, 'L', entry->name, entry, err) < 0 ||
	    write_long(fd, 'K', entry->link, entry, err) < 0)
		return -1;
	return write_block(fd, (char)entry->type, entry->name, entry->link, entry->size, entry,
			   err);
}
