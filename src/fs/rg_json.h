/* rg_json.h - one line of what `rg --json` prints. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

enum rg_type { RG_OTHER, RG_BEGIN, RG_MATCH, RG_CONTEXT, RG_END, RG_SUMMARY };

struct rg_message {
	enum rg_type type;
	struct buf path, text; /* text: of the line, or the lines */
	int64_t line;          /* the number of the first; 0: not said */
	int64_t start;         /* where in the text the first match begins */
	bool binary;           /* of the end: the file is no text */
};

void rg_message_init(struct rg_message *message, size_t text_max);
void rg_message_done(struct rg_message *message);

/* Fills the message, whose buffers are used again. -1 for what is not such a line. */
int rg_json_parse(const char *line, size_t len, struct rg_message *to, struct err *err);
