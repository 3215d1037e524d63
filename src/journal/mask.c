#include "journal/mask.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "base/utf8.h"

enum { SEEN_MAX = 16384 };

static const char stars[] = "***", cut[] = "…";

/* A text on its way: what was read, and what was written of it. */
struct masking {
	const char *at, *end, *start;
	char *to;
	size_t len, room; /* room: without what a cut needs */
};

/* ---- names ---- */

/* What a name that holds a secret ends with. */
static const struct {
	const char *text;
	bool word; /* it counts as a word of its own: "DB_PASS", not "compass" */
	bool line; /* its value is the rest of the line: "Authorization: Bearer x" */
} names[] = {
	{ "password" },
	{ "passwd" },
	{ "passphrase" },
	{ "secret" },
	{ "token" },
	{ "apikey" },
	{ "api_key" },
	{ "access_key" },
	{ "accesskey" },
	{ "private_key" },
	{ "privatekey" },
	{ "secret_key" },
	{ "secretkey" },
	{ "auth_key" },
	{ "credential" },
	{ "credentials" },
	{ "pass", .word = true },
	{ "pwd", .word = true },
	{ "authorization", .line = true },
	{ "cookie", .line = true },
};

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static char folded(char c)
{
	return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static bool ends_with(const char *name, size_t len, const char *text, bool word)
{
	size_t n = strlen(text);
	if (n > len)
		return false;
	for (size_t i = 0; i < n; i++)
		if (folded(name[len - n + i]) != text[i])
			return false;
	return !word || n == len || folded(name[len - n - 1]) == '_';
}

/* ---- what is a secret: each gives where it begins, and its length, or 0 ---- */

struct mask_secret {
	const char *at;
	size_t len;
};

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	return at;
}

/* A quote, which within other quotes stands behind a backslash. */
static const char *skip_quote(const char *at, const char *end)
{
	if (end - at > 1 && *at == '\\' && (at[1] == '"' || at[1] == '\''))
		return at + 2;
	return at < end && (*at == '"' || *at == '\'' || *at == '`') ? at + 1 : at;
}

/* The same quote again, and not behind a backslash unless the first one is. */
static const char *find_quote(const char *at, const char *end, const char *opened, size_t len)
{
	char quote = opened[len - 1];
	for (; at < end && *at; at++) {
		if (len == 2 && end - at > 1 && *at == '\\' && at[1] == quote)
			return at;
		if (len == 1 && *at == quote)
			return at;
		at += len == 1 && quote != '\'' && *at == '\\' && at + 1 < end;
	}
	return at;
}

static struct mask_secret value_at(const char *at, const char *end, bool line)
{
	at += end - at > 1 && *at == '$' && (at[1] == '\'' || at[1] == '"');
	const char *from = skip_quote(at, end), *to = from;
	if (from > at && !line) {
		to = find_quote(from, end, at, (size_t)(from - at));
		return (struct mask_secret){ from, (size_t)(to - from) };
	}
	const char *ends = line ? "\r\n\"'`" : " \t\r\n\"'`&;|";
	while (to < end && *to && !strchr(ends, *to))
		to += !line && *to == '\\' && end - to > 1 ? 2 : 1;
	return (struct mask_secret){ from, (size_t)(to - from) };
}

/* "-u name:password", as curl has it. */
static struct mask_secret user_value(const char *at, const char *end)
{
	struct mask_secret value = value_at(skip_blanks(at, end), end, false);
	const char *colon = memchr(value.at, ':', value.len);
	if (!colon)
		return (struct mask_secret){ at, 0 };
	return (struct mask_secret){ colon + 1, (size_t)(value.at + value.len - colon - 1) };
}

/* "name=value", "name: value", "--name value". */
static struct mask_secret named(const char *name, size_t len, const char *end)
{
	static const struct mask_secret none = { NULL, 0 };
	const char *behind = name + len, *at = skip_blanks(skip_quote(behind, end), end);
	bool assigned = at < end && (*at == '=' || *at == ':');
	bool flag = *name == '-' && len > 1;
	if (!assigned && !flag) /* nearly all words */
		return none;
	if (len > 2 && !strncmp(name, "-u", 2) && behind < end && *behind == ':')
		return user_value(name + 2, end);
	if ((len == 2 && !strncmp(name, "-u", 2)) || (len == 6 && !strncmp(name, "--user", 6)))
		return user_value(behind + (behind < end && *behind == '='), end);
	for (size_t i = 0; i < COUNT(names); i++) {
		if (!ends_with(name, len, names[i].text, names[i].word))
			continue;
		if (assigned) /* ":=" and "==" too */
			at += 1 + (end - at > 1 && at[1] == '=');
		return assigned || at > behind ? value_at(skip_blanks(at, end), end, names[i].line)
					       : none;
	}
	return none;
}

static size_t key_length(const char *at, const char *end)
{
	const char *from = at;
	while (at < end && (is_name_char(*at) || strchr(".+/=", *at)) && *at)
		at++;
	return (size_t)(at - from);
}

/* "Bearer x", and keys of services that begin in a way of their own. */
static struct mask_secret known(const char *word, size_t len, const char *end)
{
	enum { SCHEME_MIN = 8, KEY_MIN = 16 };
	static const char *const prefixes[] = { "sk-",   "sk_",         "rk_",   "ghp_",   "gho_",
						"ghs_",  "ghu_",        "ghr_",  "glpat-", "xoxb-",
						"xoxp-", "xoxa-",       "xoxs-", "AKIA",   "ASIA",
						"AIza",  "github_pat_", "eyJ",   "hf_",    "npm_",
						"pypi-" };
	bool scheme = (len == 6 && !strncasecmp(word, "bearer", 6)) ||
		      (len == 5 && !strncasecmp(word, "basic", 5));
	const char *key = skip_blanks(word + len, end);
	if (scheme && key > word + len && key_length(key, end) >= SCHEME_MIN)
		return (struct mask_secret){ key, key_length(key, end) };
	for (size_t i = 0; i < COUNT(prefixes); i++) {
		size_t n = strlen(prefixes[i]);
		if (len < n || strncmp(word, prefixes[i], n) != 0)
			continue;
		size_t whole = key_length(word, end);
		if (whole >= KEY_MIN)
			return (struct mask_secret){ word + n, whole - n };
	}
	return (struct mask_secret){ NULL, 0 };
}

/* "://name:password@", "://token@" */
static struct mask_secret in_url(const char *at, const char *end)
{
	const char *from = at + 3, *sign = NULL, *colon = NULL;
	for (at = from; at < end && *at && !strchr("/?#\\ \t\r\n\"'`<>", *at); at++) {
		if (*at == '@')
			sign = at;
		if (*at == ':' && !colon)
			colon = at;
	}
	if (colon && colon < sign)
		from = colon + 1;
	return (struct mask_secret){ from, sign ? (size_t)(sign - from) : 0 };
}

/* "-----BEGIN … PRIVATE KEY-----": all up to its end. */
static struct mask_secret private_key(const char *at, const char *end)
{
	static const char begin[] = "-----BEGIN ", key[] = "PRIVATE KEY-----", last[] = "-----END";
	size_t left = (size_t)(end - at);
	const char *line = left > sizeof begin && !strncmp(at, begin, sizeof begin - 1)
				   ? memmem(at, left < 64 ? left : 64, key, sizeof key - 1)
				   : NULL;
	if (!line)
		return (struct mask_secret){ NULL, 0 };
	line += sizeof key - 1;
	const char *to = memmem(line, (size_t)(end - line), last, sizeof last - 1);
	return (struct mask_secret){ line, (size_t)((to ? to : end) - line) };
}

/* ---- the text ---- */

static bool put(struct masking *m, const char *data, size_t len)
{
	bool fits = len <= m->room - m->len;
	if (!fits)
		len = m->room - m->len;
	memcpy(m->to + m->len, data, len);
	m->len += len;
	return fits;
}

static struct mask_secret secret_at(const struct masking *m, size_t *ret_word)
{
	const char *at = m->at;
	size_t len = 0;
	while (at + len < m->end && is_name_char(at[len]) &&
	       !(len && at[len] == '-' && private_key(at + len, m->end).len))
		len++;
	*ret_word = len ? len : 1;
	if (m->end - at > 3 && !strncmp(at, "://", 3))
		return in_url(at, m->end);
	struct mask_secret found = private_key(at, m->end);
	if (!found.len && len)
		found = named(at, len, m->end);
	if (!found.len && len)
		found = known(at, len, m->end);
	return found;
}

size_t mask_text(const char *text, size_t len, char *to, size_t room)
{
	/* What comes later would be cut, but for texts that are nearly all secret. */
	size_t seen = len < SEEN_MAX ? len : SEEN_MAX;
	struct masking m = { text, text + seen, text, to, 0, room - sizeof cut };
	bool whole = true;
	while (m.at < m.end && whole) {
		size_t word;
		struct mask_secret secret = secret_at(&m, &word);
		size_t plain = secret.len ? (size_t)(secret.at - m.at) : word;
		whole = put(&m, m.at, plain);
		if (whole && secret.len)
			whole = put(&m, stars, sizeof stars - 1);
		m.at += plain + secret.len;
	}
	if (!whole || seen < len) {
		m.len -= utf8_partial(to, m.len);
		memcpy(to + m.len, cut, sizeof cut - 1);
		m.len += sizeof cut - 1;
	}
	to[m.len] = 0;
	return m.len;
}
