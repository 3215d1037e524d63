/* carrier.h - the half of the way out that is in the machine's network: a process that resolves, connects
 * and copies, and looks at nothing that it carries. The other half reads what boxes and servers send, and
 * has no network but the box's: whoever takes it over can ask for names of the allow list, and no more. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rules;

enum { CARRIER_DATAGRAM = 4096, CARRIER_WHY = 64 };

/* Serves what is asked on that socket, until nobody can ask any more. forward: DNS, and no names. */
void carrier_run(const struct rules *rules, bool forward, int asked);

/* --- asking, by the other end of it --------------------------------------------------------- */

/* A stream to a name, or -1; why then says what is to be told of it, if anything is. */
int carrier_connect(int carrier, const char *name, unsigned port, char why[CARRIER_WHY]);

/* Asks the machine's own DNS servers; to has room for CARRIER_DATAGRAM bytes. 0: no answer. */
size_t carrier_resolve(int carrier, const uint8_t *query, size_t len, uint8_t *to);
