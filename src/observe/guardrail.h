/* guardrail.h - what guardrail mode watches for: a table of rules over samples, and for how long each holds. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample;

enum { GUARDRAIL_MAX = 16, GUARDRAIL_AGAIN_MS = 60000 };

struct guardrail_rule {
	const char *name;
	int64_t hold_ms; /* how long it must be so before it trips */
	double limit;
	/* Measures it; NAN: there is nothing to measure. It is so at the limit and above. */
	double (*measure)(const struct sample *now, const struct sample *before);
	const char *what, *unit; /* what was measured, for people */
};
extern const struct guardrail_rule guardrail_rules[];
extern const size_t guardrail_count;

/* What became of each rule so far. */
struct guardrail_state {
	struct {
		int64_t since_ms;   /* it is so since then; 0: it is not */
		int64_t tripped_ms; /* 0: never */
		bool tripped;       /* and has not ended since */
	} rules[GUARDRAIL_MAX];
};

/* Looks at a sample and the one before (NULL: none): calls trip() for each rule that trips now. One that
 * goes on being so trips once; one that comes back, after a minute at the earliest. */
void guardrail_check(
	struct guardrail_state *state, const struct sample *now, const struct sample *before,
	void (*trip)(void *arg, const struct guardrail_rule *rule, const char *message), void *arg);
