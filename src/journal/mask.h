/* mask.h - text that people look at, without the secrets that it is likely to hold. */
#pragma once
#include <stddef.h>

/* Copies a text, with *** in the place of what looks like a secret: the value of a name such as
 * password, api_key or Authorization, however it is assigned; the password of a URL; what follows
 * "Bearer"; keys that are known by how they begin. A text that does not fit is cut between two
 * characters and ends with "…". The copy is NUL-terminated; its length is returned. room: 8 at least. */
size_t mask_text(const char *text, size_t len, char *to, size_t room);
