/* static.h - the product's own pages and the files of its npm packages. */
#pragma once

struct call;
struct err;

/* Answers with a file below the product's home: HTML pages carry a Content-Security-Policy, a strict one
 * where none is given (NULL). */
int static_file(struct call *call, const char *path, const char *policy, struct err *err);

/* The handler of "/static/" and all below it. */
int static_serve(struct call *call, const void *in, struct err *err);
extern const struct schema static_schema;
