/* code.h - the languages that code can be written in. */
#pragma once

/* The name of a language that has others as well ("js" is "javascript"); any other as it is. */
const char *code_language(const char *name);
