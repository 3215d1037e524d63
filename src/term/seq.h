/* seq.h - the output of a terminal told apart: text, control characters, escape sequences. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEQ_PARAMS = 32, SEQ_PARAM_MAX = 65535 };

enum seq_kind {
	SEQ_NONE,    /* the data is used up; what is unfinished waits for more */
	SEQ_TEXT,    /* text, len: printable; a character of UTF-8 is never cut */
	SEQ_CONTROL, /* final: a control character but ESC */
	SEQ_ESCAPE,  /* intermediate, final; a C1 control is the escape that it stands for */
	SEQ_CSI,     /* prefix, params, intermediate, final */
};

/* All zero at the beginning. The upper fields say what seq_next() found, until its next call. */
struct seq {
	const char *text;
	size_t len;
	char prefix, intermediate, final; /* 0 where there is none */
	int count;                        /* of parameters */
	int params[SEQ_PARAMS];           /* at most SEQ_PARAM_MAX; -1 where none is given */
	uint32_t sub; /* bit n: a colon, not a semicolon, stands before parameter n */

	unsigned char state;
	unsigned char held; /* bytes of hold: the beginning of a character */
	char hold[4];
};

/* Takes the next thing off *data. Strings (OSC, DCS, SOS, PM, APC) are passed over, and so are
 * sequences with more than SEQ_PARAMS parameters. */
enum seq_kind seq_next(struct seq *seq, const char **data, const char *end);

/* Nothing is unfinished: the next byte begins something. */
static inline bool seq_idle(const struct seq *seq)
{
	return !seq->state && !seq->held;
}

static inline int seq_param(const struct seq *seq, int n, int otherwise)
{
	return n < seq->count && seq->params[n] >= 0 ? seq->params[n] : otherwise;
}

/* How many bytes at text are printable: neither C0, DEL nor, in UTF-8, C1. */
size_t seq_span(const char *text, size_t len);

/* The character at text, U+FFFD for what is none, and how many bytes it takes; len > 0. */
uint32_t seq_char(const char *text, size_t len, size_t *ret_len);
