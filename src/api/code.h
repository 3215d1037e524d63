/* code.h - the languages that code can be written in. */
#pragma once

struct schema;

/* The name of a language that has others as well ("js" is "javascript"); any other as it is. */
const char *code_language(const char *name);

/* An output as nbformat has it (jupyter.c). */
extern const struct schema code_output_schema;
