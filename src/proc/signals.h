/* signals.h - signals by name. */
#pragma once

/* "SIGTERM", "term" or "15": its number, or 0. */
int signal_number(const char *name);
