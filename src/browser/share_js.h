/* share_js.h - the JavaScript of share/browser, which is part of the product. */
#pragma once

struct buf;
struct config;
struct err;

/* Appends the text of one file, by its name without ".js". */
int share_js_read(const struct config *config, const char *name, struct buf *to, struct err *err);
