/* reach.h - what a sandbox can reach, as its host describes it in AIO_SANDBOX_NETWORK: "none", "full", or
 * "allow COUNT NAME,NAME…" with as many of the names as fit. */
#pragma once
#include <stddef.h>

struct buf;

/* Writes the description. names: those of mode "allow". */
void reach_describe(const char *mode, const char *const *names, size_t count, struct buf *to);

/* The mode alone; NULL if that is not known. The result is one of three constants. */
const char *reach_mode(const char *network);

/* For a caller whose program asked for a name where the network is "none". */
extern const char reach_offline_hint[];

/* Why a host outside may be out of reach, and what helps; NULL where the network is not limited so. */
const char *reach_why_not(const char *network);

/* Appends sentences for people and models, ended by a newline: "Network: none. …". Nothing if the network
 * is not known: the server was started by something else than a host. */
void reach_explain(const char *network, struct buf *to);
