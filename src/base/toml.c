#include "base/toml.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

/* Reads from left to right; what fails leaves `at` where it is wrong. */
struct toml {
	const char *at, *end;
	int depth;
};

static bool value(struct toml *t);

static int peek(const struct toml *t)
{
	return t->at < t->end ? (unsigned char)*t->at : -1;
}

static bool take(struct toml *t, char c)
{
	if (peek(t) != c)
		return false;
	t->at++;
	return true;
}

static bool take_word(struct toml *t, const char *word)
{
	size_t len = strlen(word);
	if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len) != 0)
		return false;
	t->at += len;
	return true;
}

/* ---- what is between ---- */

static void skip_blanks(struct toml *t)
{
	while (peek(t) == ' ' || peek(t) == '\t')
		t->at++;
}

static bool is_control(int c)
{
	return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f;
}

static bool newline(struct toml *t)
{
	return take(t, '\n') || take_word(t, "\r\n");
}

static bool skip_comment(struct toml *t)
{
	if (!take(t, '#'))
		return true;
	while (peek(t) >= 0 && peek(t) != '\n' && peek(t) != '\r') {
		if (is_control(peek(t)))
			return false;
		t->at++;
	}
	return true;
}

/* Inside an array: also lines. */
static bool skip_lines(struct toml *t)
{
	do {
		skip_blanks(t);
		if (!skip_comment(t))
			return false;
	} while (newline(t));
	return true;
}

/* ---- strings ---- */

static bool escape(struct toml *t, bool lines)
{
	int c = peek(t);
	int digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (lines && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
		skip_blanks(t);
		return newline(t); /* what follows may be blank, and is part of the string here */
	}
	if (!digits && (c < 0 || !strchr("btnfre\"\\", c)))
		return false;
	t->at++;
	unsigned long code = 0;
	for (; digits && isxdigit(peek(t)); digits--) {
		int digit = (unsigned char)*t->at++;
		code = code * 16 +
		       (unsigned long)(isdigit(digit) ? digit - '0' : tolower(digit) - 'a' + 10);
	}
	return !digits && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

/* One that ends with three quotes, after at most two of its own. */
static bool long_string(struct toml *t, char quote)
{
	const char three[] = { quote, quote, quote, 0 };
	(void)newline(t);
	while (!take_word(t, three)) {
		if (newline(t))
			continue;
		if (peek(t) < 0 || is_control(peek(t)))
			return false;
		if (*t->at++ == '\\' && quote == '"' && !escape(t, true))
			return false;
	}
	for (int i = 0; i < 2; i++)
		(void)take(t, quote);
	return true;
}

static bool string(struct toml *t, bool may_be_long)
{
	char quote = *t->at;
	const char three[] = { quote, quote, quote, 0 };
	if (may_be_long && take_word(t, three))
		return long_string(t, quote);
	for (t->at++; !take(t, quote);) {
		if (peek(t) < 0 || is_control(peek(t)))
			return false;
		if (*t->at++ == '\\' && quote == '"' && !escape(t, false))
			return false;
	}
	return true;
}

/* ---- keys ---- */

static bool key_part(struct toml *t)
{
	const char *start = t->at;
	if (peek(t) == '"' || peek(t) == '\'')
		return string(t, false);
	while (isalnum(peek(t)) || peek(t) == '_' || peek(t) == '-')
		t->at++;
	return t->at > start;
}

static bool key(struct toml *t)
{
	do {
		skip_blanks(t);
		if (!key_part(t))
			return false;
		skip_blanks(t);
	} while (take(t, '.'));
	return true;
}

static bool pair(struct toml *t)
{
	if (!key(t) || !take(t, '='))
		return false;
	skip_blanks(t);
	return value(t);
}

/* ---- values ---- */

/* Digits of a base, with single underscores between them. */
static bool digits(struct toml *t, int (*is_digit)(int), const char *of)
{
	bool any = false;
	for (;; t->at++) {
		int c = peek(t);
		bool is = c >= 0 && (of ? strchr(of, c) != NULL : is_digit(c));
		bool next = t->at + 1 < t->end && (of ? strchr(of, t->at[1]) && t->at[1]
						      : is_digit((unsigned char)t->at[1]));
		if (!is && !(c == '_' && any && next && t->at[-1] != '_'))
			return any;
		any = true;
	}
}

static bool number(struct toml *t)
{
	if (take_word(t, "0x"))
		return digits(t, isxdigit, NULL);
	if (take_word(t, "0o"))
		return digits(t, NULL, "01234567");
	if (take_word(t, "0b"))
		return digits(t, NULL, "01");
	(void)(take(t, '+') || take(t, '-'));
	if (take_word(t, "inf") || take_word(t, "nan"))
		return true;
	const char *first = t->at;
	if (!digits(t, isdigit, NULL) || (*first == '0' && t->at > first + 1))
		return false;
	if (take(t, '.') && !digits(t, isdigit, NULL))
		return false;
	if (!take(t, 'e') && !take(t, 'E'))
		return true;
	(void)(take(t, '+') || take(t, '-'));
	return digits(t, isdigit, NULL);
}

/* Like a pattern, in which 0 stands for any digit. */
static bool shaped(struct toml *t, const char *pattern)
{
	size_t len = strlen(pattern);
	if ((size_t)(t->end - t->at) < len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (pattern[i] == '0' ? !isdigit((unsigned char)t->at[i]) : t->at[i] != pattern[i])
			return false;
	t->at += len;
	return true;
}

static bool time_of_day(struct toml *t)
{
	return shaped(t, "00:00:00") && (!take(t, '.') || digits(t, isdigit, NULL));
}

static bool moment(struct toml *t)
{
	if (!shaped(t, "0000-00-00"))
		return time_of_day(t);
	bool blank = peek(t) == ' ' && t->at + 1 < t->end && isdigit((unsigned char)t->at[1]);
	if (!take(t, 'T') && !take(t, 't') && !(blank && take(t, ' ')))
		return true;
	if (!time_of_day(t))
		return false;
	if (take(t, 'Z') || take(t, 'z'))
		return true;
	return (peek(t) != '+' && peek(t) != '-') || shaped(t, "+00:00") || shaped(t, "-00:00");
}

static bool is_moment(const struct toml *t)
{
	struct toml ahead = *t;
	return shaped(&ahead, "0000-") || shaped(&ahead, "00:");
}

static bool array(struct toml *t)
{
	t->at++;
	for (;;) {
		if (!skip_lines(t))
			return false;
		if (take(t, ']'))
			return true;
		if (!value(t) || !skip_lines(t))
			return false;
		if (!take(t, ','))
			return take(t, ']');
	}
}

static bool inline_table(struct toml *t)
{
	t->at++;
	skip_blanks(t);
	if (take(t, '}'))
		return true;
	do {
		if (!pair(t))
			return false;
		skip_blanks(t);
	} while (take(t, ','));
	return take(t, '}');
}

static bool nested(struct toml *t)
{
	if (t->depth == TOML_DEPTH_MAX)
		return false;
	t->depth++;
	bool ok = (peek(t) == '[' ? array : inline_table)(t);
	t->depth--;
	return ok;
}

static bool value(struct toml *t)
{
	switch (peek(t)) {
	case '"':
	case '\'':
		return string(t, true);
	case '[':
	case '{':
		return nested(t);
	case 't':
		return take_word(t, "true");
	case 'f':
		return take_word(t, "false");
	default:
		return is_moment(t) ? moment(t) : number(t);
	}
}

/* ---- the whole ---- */

static bool header(struct toml *t)
{
	t->at++;
	bool list = take(t, '[');
	return key(t) && take(t, ']') && (!list || take(t, ']'));
}

static bool expression(struct toml *t)
{
	skip_blanks(t);
	int c = peek(t);
	if (c == '[' ? !header(t) : c >= 0 && !strchr("#\r\n", c) && !pair(t))
		return false;
	skip_blanks(t);
	return skip_comment(t) && (newline(t) || t->at == t->end);
}

int toml_check(const char *text, size_t len, struct err *err)
{
	struct toml t = { text, text + len, 0 };
	if (memchr(text, 0, len) || !utf8_valid(text, len))
		return err_set(err, ERR_INVALID, "not UTF-8 text");
	while (t.at < t.end)
		if (!expression(&t)) {
			int line = 1;
			for (const char *at = text; at < t.at && at < t.end; at++)
				line += *at == '\n';
			return err_set(err, ERR_INVALID, "not TOML: line %d", line);
		}
	return 0;
}

void toml_string(struct buf *to, const char *text)
{
	buf_str(to, "\"");
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			buf_printf(to, "\\%c", *text);
		else if (is_control((unsigned char)*text) || *text == '\t')
			buf_printf(to, "\\u%04X", (unsigned char)*text);
		else
			buf_add(to, text, 1);
	buf_str(to, "\"");
}
