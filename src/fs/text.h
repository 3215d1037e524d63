/* text.h - a text file in memory: changed as UTF-8, kept in the encoding and with the line endings it
 * has. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/desc.h"

struct err;

/* No buffer that is handed in is without data, be it "". */

enum text_encoding {
	TEXT_UTF8,
	TEXT_UTF8_BOM,
	TEXT_UTF16LE, /* with a byte order mark, as all of its kind we know */
	TEXT_UTF16BE,
	TEXT_BYTES, /* something else, of which only the ASCII is known */
};

/* Turns the bytes of a file into text without a byte order mark; what it is not known to be stays as
 * it is. And back. A full buffer gives -1 (UTF-16 grows by half). */
int text_decode(struct buf *bytes, enum text_encoding *ret, struct err *err);
int text_encode(struct buf *text, enum text_encoding encoding, struct err *err);

/* Which occurrences are replaced. */
enum text_mode { TEXT_UNIQUE, TEXT_ALL, TEXT_FIRST, TEXT_LAST };

enum { TEXT_LINES_MAX = 20 };

struct text_change {
	size_t found,
		replaced; /* occurrences; none is replaced if there is not one, or not one only */
	int64_t lines[TEXT_LINES_MAX]; /* of the first occurrences, counted from 1 */
	size_t at;                     /* of the first one replaced, in the new text */
	struct buf text;               /* the new one, where something was replaced */
};

/* Replaces what is exactly `from`, not empty. Where the text's lines all end with CR LF, so do those of
 * from and to; where only some do, that is tried when there is nothing else. -1 with EILSEQ when text
 * that is not ASCII would get into or is sought in TEXT_BYTES, ERR_TOO_LARGE beyond the cap. */
int text_replace(const struct buf *in, enum text_encoding encoding, struct text from,
		 struct text to, enum text_mode mode, size_t cap, struct text_change *ret,
		 struct err *err);

/* Puts lines after line number `after` (0: before the first). -1 with ERR_RANGE when there are fewer. */
int text_insert(const struct buf *in, enum text_encoding encoding, struct text lines, int64_t after,
		size_t cap, struct text_change *ret, struct err *err);

void text_change_done(struct text_change *change);
#define auto_change __attribute__((cleanup(text_change_done)))

/* How many lines there are; one that does not end counts. */
int64_t text_lines(const char *text, size_t len);

/* Where line number `line`, counted from 1, begins: len when there are fewer. */
size_t text_line_at(const char *text, size_t len, int64_t line);

/* Appends lines as `cat -n` has them, the first with this number. Their ends become "\n". */
int text_number(struct buf *to, const char *text, size_t len, int64_t first);
