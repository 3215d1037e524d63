#include "term/seq.h"

#include <string.h>

#include "base/utf8.h"

enum state { TEXT, ESCAPE, ESCAPE_REST, CSI, CSI_PARAMS, CSI_REST, CSI_BAD, STRING, OSC };

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f, C1_LEAD = 0xc2 };

#define EACH(byte) (0x0101010101010101u * (byte))

static bool any_zero(uint64_t word)
{
	return (word - EACH(1)) & ~word & EACH(0x80);
}

static bool is_c1(const char *text, size_t len)
{
	return len > 1 && (unsigned char)text[0] == C1_LEAD && (unsigned char)text[1] >= 0x80 &&
	       (unsigned char)text[1] < 0xa0;
}

size_t seq_span(const char *text, size_t len)
{
	size_t at = 0;
	while (at < len) {
		uint64_t word;
		if (len - at >= sizeof word) {
			memcpy(&word, text + at, sizeof word);
			if (!((word - EACH(0x20)) & ~word & EACH(0x80)) &&
			    !any_zero(word ^ EACH(DEL)) && !any_zero(word ^ EACH(C1_LEAD))) {
				at += sizeof word;
				continue;
			}
		}
		unsigned char c = (unsigned char)text[at];
		if (c < 0x20 || c == DEL || is_c1(text + at, len - at))
			break;
		at++;
	}
	return at;
}

uint32_t seq_char(const char *text, size_t len, size_t *ret_len)
{
	static const unsigned char lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	size_t n = utf8_char(text, len);
	if (!n) {
		*ret_len = utf8_bad(text, len);
		return 0xfffd;
	}
	uint32_t c = (unsigned char)text[0] & lead[n];
	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)text[i] & 0x3f);
	*ret_len = n;
	return c;
}

static enum seq_kind found(struct seq *seq, enum seq_kind kind, char final)
{
	seq->state = TEXT;
	seq->final = final;
	return kind;
}

static void enter(struct seq *seq, enum state state)
{
	seq->state = state;
	seq->prefix = seq->intermediate = 0;
	seq->count = 0;
	seq->sub = 0;
}

static void intermediate(struct seq *seq, enum state rest, char c)
{
	/* Nothing that we know has two. */
	seq->intermediate = seq->intermediate ? -1 : c;
	seq->state = rest;
}

/* c is printable ASCII. */
static enum seq_kind escape(struct seq *seq, char c)
{
	if (c < 0x30) {
		intermediate(seq, ESCAPE_REST, c);
		return SEQ_NONE;
	}
	if (seq->state == ESCAPE_REST)
		return found(seq, SEQ_ESCAPE, c);
	switch (c) {
	case '[':
		enter(seq, CSI);
		return SEQ_NONE;
	case ']':
		seq->state = OSC;
		return SEQ_NONE;
	case 'P':
	case 'X':
	case '^':
	case '_':
		seq->state = STRING;
		return SEQ_NONE;
	}
	return found(seq, SEQ_ESCAPE, c);
}

static void param(struct seq *seq, char c)
{
	if (!seq->count)
		seq->params[seq->count++] = -1;
	int *last = &seq->params[seq->count - 1];
	if (c >= '0' && c <= '9') {
		*last = (*last < 0 ? 0 : *last) * 10 + (c - '0');
		*last = *last < SEQ_PARAM_MAX ? *last : SEQ_PARAM_MAX;
	} else if (seq->count == SEQ_PARAMS) {
		seq->state = CSI_BAD;
	} else {
		seq->sub |= (uint32_t)(c == ':') << seq->count;
		seq->params[seq->count++] = -1;
	}
}

static enum seq_kind csi(struct seq *seq, char c)
{
	if (c >= 0x40) {
		bool bad = seq->state == CSI_BAD;
		return found(seq, bad ? SEQ_NONE : SEQ_CSI, c);
	}
	if (seq->state == CSI && c >= 0x3c) {
		seq->prefix = c;
		seq->state = CSI_PARAMS;
	} else if ((seq->state == CSI || seq->state == CSI_PARAMS) && c >= 0x30 && c < 0x3c) {
		seq->state = CSI_PARAMS;
		param(seq, c);
	} else if (seq->state != CSI_BAD && c < 0x30) {
		intermediate(seq, CSI_REST, c);
	} else {
		seq->state = CSI_BAD;
	}
	return SEQ_NONE;
}

/* ST (U+009C, or ESC and a backslash) ends a string, BEL an OSC too. In here, held is whether the
 * last byte may begin a C1. */
static void string(struct seq *seq, unsigned char c)
{
	bool ended = (seq->held && c == 0x9c) || (seq->state == OSC && c == BEL);
	seq->held = !ended && c == C1_LEAD;
	if (ended)
		seq->state = TEXT;
}

/* A byte that is not text. C0 controls work in the midst of a sequence; a byte beyond ASCII is not
 * taken, and ends it. */
static enum seq_kind other(struct seq *seq, const char **data)
{
	unsigned char c = (unsigned char)*(*data)++;
	bool in_string = seq->state == STRING || seq->state == OSC;
	if (c == ESC || c == CAN || c == SUB) {
		seq->held = 0;
		enter(seq, c == ESC ? ESCAPE : TEXT);
	} else if (in_string) {
		string(seq, c);
	} else if (c < 0x20) {
		seq->final = (char)c;
		return SEQ_CONTROL;
	} else if (c >= 0x80) {
		seq->state = TEXT;
		(*data)--;
	} else if (c != DEL) {
		bool esc = seq->state == ESCAPE || seq->state == ESCAPE_REST;
		return esc ? escape(seq, (char)c) : csi(seq, (char)c);
	}
	return SEQ_NONE;
}

static enum seq_kind c1(struct seq *seq, const char *text)
{
	enter(seq, ESCAPE);
	return escape(seq, (char)((unsigned char)text[1] - 0x40));
}

/* The character whose beginning is held goes on with the next byte, or turns out to be none. */
static enum seq_kind go_on(struct seq *seq, const char **data)
{
	size_t len = seq->held + 1u;
	seq->hold[seq->held] = **data;
	bool whole = utf8_char(seq->hold, len) != 0, partial = utf8_partial(seq->hold, len) == len;
	if (whole || partial) {
		seq->held++;
		(*data)++;
	}
	if (partial)
		return SEQ_NONE;
	seq->text = seq->hold;
	seq->len = seq->held;
	seq->held = 0;
	return is_c1(seq->text, seq->len) ? c1(seq, seq->text) : SEQ_TEXT;
}

static enum seq_kind text(struct seq *seq, const char **data, const char *end)
{
	size_t len = seq_span(*data, (size_t)(end - *data));
	seq->text = *data;
	*data += len;
	size_t tail = *data == end ? utf8_partial(seq->text, len) : 0;
	memcpy(seq->hold, end - tail, tail);
	seq->held = (unsigned char)tail;
	seq->len = len - tail;
	return seq->len ? SEQ_TEXT : SEQ_NONE;
}

enum seq_kind seq_next(struct seq *seq, const char **data, const char *end)
{
	enum seq_kind kind = SEQ_NONE;
	while (!kind && *data < end) {
		unsigned char c = (unsigned char)**data;
		if (seq->state == TEXT && seq->held) {
			kind = go_on(seq, data);
		} else if (seq->state != TEXT || c < 0x20 || c == DEL) {
			kind = other(seq, data);
		} else if (is_c1(*data, (size_t)(end - *data))) {
			kind = c1(seq, *data);
			*data += 2;
		} else {
			kind = text(seq, data, end);
		}
	}
	return kind;
}
