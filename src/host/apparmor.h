/* apparmor.h - programs in boxes make user namespaces, for their own sandboxes (Chromium's). Where
 * AppArmor restricts that (Ubuntu 23.10 and later) it takes a profile that allows it. */
#pragma once
#include <stddef.h>

enum apparmor {
	APPARMOR_OPEN,   /* no restriction */
	APPARMOR_LOADED, /* a restriction, and our profile */
	APPARMOR_CLOSED, /* a restriction, and no profile */
};

/* proc and sys: where those file systems are. */
enum apparmor apparmor_look(const char *proc, const char *sys);

/* Loads the profile where it is needed, and appends to a text what people should know. */
void apparmor_prepare(char *text, size_t room);
