/* html.h - text in HTML. */
#pragma once
struct buf;

/* Appends text so that it means itself, also in a quoted attribute. */
void html_escape(struct buf *to, const char *text);
