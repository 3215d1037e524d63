/* title.h - what `ps` shows of a process that never ran another program. */
#pragma once

/* Remembers where the arguments are: for main(), with those of its argv that are to go. */
void title_init(int argc, char **argv);

/* Shows this instead of the arguments, cut where they ended. */
void title_set(const char *title);
