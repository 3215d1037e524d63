/* mime.h - media types: of a file by its name, and of a message by its header. */
#pragma once
#include <stdbool.h>

/* The Content-Type of a file, by the extension of its name: never NULL. */
const char *mime_of(const char *path);

/* Whether a Content-Type header (NULL where there is none) names the media type want, such as
 * "text/html", whatever its parameters. "application/json" also takes application/ANY+json. */
bool mime_is(const char *content_type, const char *want);
