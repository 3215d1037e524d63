/* meter.h - how far a copy is, on a line of a terminal that is written again and again. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct meter {
	char what[60]; /* is copied */
	int64_t total; /* bytes; 0: not known */
	int64_t moved, start_ms, said_ms;
};

void meter_start(struct meter *meter, const char *what, int64_t total);
void meter_moved(void *arg, size_t bytes); /* for exec_io */
void meter_end(struct meter *meter);       /* takes the line away */
