/* tls_sni.h - the host that the first bytes of a connection are for: of TLS, by its server name (SNI). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TLS_SNI_MAX = 16384 }; /* as much of it is looked at */

enum tls_sni {
	TLS_SNI_MORE,     /* it cannot be told yet */
	TLS_SNI_NAMED,    /* TLS, for this server */
	TLS_SNI_NAMELESS, /* TLS that names no server */
	TLS_SNI_ODD, /* TLS of another version than 3.x, SSLv2, or what servers may read differently */
	TLS_SNI_REQUEST, /* HTTP: each of its requests names its host, see http_host.h */
	TLS_SNI_OTHER,   /* something else */
};

/* Looks for the server name of a TLS ClientHello, in lower case. name has room for 256 bytes.
 * greeted: the server spoke first, so a line like "EHLO me" is no request unless it says HTTP. */
enum tls_sni tls_sni_find(const unsigned char *data, size_t len, bool greeted, char *name);
