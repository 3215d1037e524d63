/* hello.h - the host that the first bytes of a connection are for, as far as they tell. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { HELLO_MAX = 16384 }; /* as much of it is looked at */

enum hello {
	HELLO_MORE,     /* it cannot be told yet */
	HELLO_NAMED,    /* TLS, for this server */
	HELLO_NAMELESS, /* TLS that names no server */
	HELLO_ODD, /* TLS of another version than 3.x, SSLv2, or what servers may read differently */
	HELLO_REQUEST, /* HTTP: each of its requests names its host, see web.h */
	HELLO_OTHER,   /* something else */
};

/* Looks for the server name of a TLS ClientHello, in lower case. name has room for 256 bytes.
 * greeted: the server spoke first, so a line like "EHLO me" is no request unless it says HTTP. */
enum hello hello_name(const unsigned char *data, size_t len, bool greeted, char *name);
