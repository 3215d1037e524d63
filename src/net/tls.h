/* tls.h - a client's TLS, behind a descriptor that speaks plain text. */
#pragma once
#include <stdint.h>

struct dial_wait;
struct err;

/* See dial_tls(). */
int tls_connect(int fd, const char *host, const struct dial_wait *wait, int64_t until_ms,
		struct err *err);
