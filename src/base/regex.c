#include "base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

enum {
	STEPS_MAX = 5000000,
	HEAP_MAX_KIB = 32768,
	STACK_FIRST = 32 * 1024,
	STACK_MAX = 1024 * 1024,
};

struct regex {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

/* Without memory PCRE2 gives NULL; as elsewhere, that is the end. */
static void *need(void *ptr)
{
	if (!ptr)
		abort();
	return ptr;
}

struct regex *regex_compile(const char *pattern, size_t len, unsigned flags, struct err *err)
{
	int code;
	size_t at;
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
	options |= flags & REGEX_LITERAL ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
	options |= flags & REGEX_FOLD ? PCRE2_CASELESS : 0;
	if (flags & REGEX_LINES && !(flags & REGEX_LITERAL))
		options |= PCRE2_MULTILINE | PCRE2_DOTALL;
	pcre2_compile_context *context = need(pcre2_compile_context_create(NULL));
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	pcre2_code *compiled =
		pcre2_compile((PCRE2_SPTR)pattern, len, options, &code, &at, context);
	pcre2_compile_context_free(context);
	if (!compiled) {
		char text[160];
		pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
		err_set(err, ERR_PATTERN,
			"the regular expression is not valid: %s (at character %zu)", text, at);
		return NULL;
	}
	struct regex *regex = xcalloc(1, sizeof *regex);
	regex->code = compiled;
	regex->data = need(pcre2_match_data_create_from_pattern(compiled, NULL));
	regex->context = need(pcre2_match_context_create(NULL));
	pcre2_set_match_limit(regex->context, STEPS_MAX);
	pcre2_set_heap_limit(regex->context, HEAP_MAX_KIB);
	if (pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0) { /* else it is only slower */
		regex->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MAX, NULL);
		pcre2_jit_stack_assign(regex->context, NULL, regex->stack);
	}
	return regex;
}

void regex_free(struct regex *regex)
{
	if (!regex)
		return;
	pcre2_match_data_free(regex->data);
	pcre2_match_context_free(regex->context);
	pcre2_jit_stack_free(regex->stack);
	pcre2_code_free(regex->code);
	free(regex);
}

int regex_find(struct regex *regex, const char *text, size_t len, size_t from, bool valid,
	       size_t *ret_start, size_t *ret_end, struct err *err)
{
	int found = pcre2_match(regex->code, (PCRE2_SPTR)text, len, from,
				valid ? PCRE2_NO_UTF_CHECK : 0, regex->data, regex->context);
	if (found == PCRE2_ERROR_NOMATCH)
		return 0;
	if (found < 0) {
		char reason[160];
		pcre2_get_error_message(found, (PCRE2_UCHAR *)reason, sizeof reason);
		return err_set(err, ERR_PATTERN,
			       "the regular expression takes too many steps (%s): avoid nested "
			       "repetitions such as (a+)+",
			       reason);
	}
	const size_t *bounds = pcre2_get_ovector_pointer(regex->data);
	*ret_start = bounds[0];
	*ret_end = bounds[1] > bounds[0] ? bounds[1] : bounds[0]; /* \K can turn them around */
	return 1;
}
