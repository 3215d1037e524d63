/* skill.h - what a skill is: a name, and a SKILL.md of front matter and Markdown. No I/O. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum { SKILL_NAME_MAX = 64 };

/* Letters and digits, with single "-", "_" or "." between them: what may be a directory, and in a
 * URL. */
bool skill_name_valid(const char *name);

/* Takes a SKILL.md apart: *ret_metadata is a new object with its front matter (empty where there is
 * none), *ret_content where the rest begins. -1 with ERR_BAD_REQUEST where the front matter does not
 * end, or is no YAML mapping. */
int skill_parse(const char *text, size_t len, json_t **ret_metadata, size_t *ret_content,
		struct err *err);
