#include "skill/skill.h"

#include <string.h>

#include "base/err.h"
#include "base/yaml.h"

bool skill_name_valid(const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t len = strlen(name), at = strspn(name, letters), more = at;
	while (more && at < len && strchr("-_.", name[at])) {
		more = strspn(name + at + 1, letters);
		at += 1 + more;
	}
	return more && at == len && len <= SKILL_NAME_MAX;
}

/* Whether the line at text is a mark such as "---"; *ret_next is where the next line begins. */
static bool is_mark(const char *text, size_t len, const char *mark, size_t *ret_next)
{
	const char *newline = memchr(text, '\n', len);
	size_t end = newline ? (size_t)(newline - text) : len, used = end;
	while (used && strchr(" \t\r", text[used - 1]) && text[used - 1])
		used--;
	*ret_next = newline ? end + 1 : len;
	return used == strlen(mark) && !memcmp(text, mark, used);
}

/* The front matter, [*ret_start, *ret_end), and where what follows it begins. 1: there is none. */
static int find_front(const char *text, size_t len, size_t *ret_start, size_t *ret_end,
		      size_t *ret_content, struct err *err)
{
	size_t next, at = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
	*ret_content = at;
	if (!is_mark(text + at, len - at, "---", &next))
		return 1;
	*ret_start = at += next;
	while (at < len) {
		bool mark = is_mark(text + at, len - at, "---", &next) ||
			    is_mark(text + at, len - at, "...", &next);
		if (mark) {
			*ret_end = at;
			*ret_content = at + next;
			return 0;
		}
		at += next;
	}
	return err_set(err, ERR_BAD_REQUEST, "SKILL.md: the front matter does not end with ---");
}

int skill_parse(const char *text, size_t len, json_t **ret_metadata, size_t *ret_content,
		struct err *err)
{
	size_t start = 0, end = 0, content = 0;
	struct err why = { 0 };
	int found = find_front(text, len, &start, &end, &content, err);
	if (found < 0)
		return -1;
	json_t *metadata = found ? json_object() : yaml_parse(text + start, end - start, &why);
	if (!metadata)
		return err_set(err, why.code == ERR_INVALID ? ERR_BAD_REQUEST : why.code,
			       "SKILL.md: front matter: %s", why.msg);
	if (json_is_null(metadata)) {
		json_decref(metadata);
		metadata = json_object();
	}
	if (!json_is_object(metadata)) {
		json_decref(metadata);
		return err_set(err, ERR_BAD_REQUEST,
			       "SKILL.md: the front matter is not a list of keys and values");
	}
	while (!found && content < len && strchr("\r\n", text[content]) && text[content])
		content++;
	*ret_metadata = metadata;
	*ret_content = content;
	return 0;
}
