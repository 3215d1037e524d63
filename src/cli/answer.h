/* answer.h - what a sandbox answered, for people: text, lines, tables. */
#pragma once
#include <jansson.h>

#include "cli/verbs.h"

/* Prints it; `data` is that of the envelope, or all of an answer that has none. Where standard output is a
 * terminal, what the sandbox chose does nothing to it. */
void answer_print(const struct api_verb *verb, json_t *answer, json_t *data);

/* What the command, code or tool ended with: 0 to 255. */
int answer_status(const struct api_verb *verb, const json_t *data);
