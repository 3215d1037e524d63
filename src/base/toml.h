/* toml.h - whether a text is TOML 1.0: its syntax, not whether names are given twice. Pure. */
#pragma once
#include <stddef.h>

struct buf;
struct err;

enum { TOML_DEPTH_MAX = 64 };

/* -1 with err, which names the line. */
int toml_check(const char *text, size_t len, struct err *err);

/* Appends a string of TOML, with its quotes. */
void toml_string(struct buf *to, const char *text);
