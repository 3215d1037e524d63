#include "config/distribution.h"

#include <unistd.h>

/* By their loader: without it, none of their programs starts. */
bool distribution_has_glibc(void)
{
#if defined(__x86_64__)
	return access("/lib64/ld-linux-x86-64.so.2", X_OK) == 0;
#elif defined(__aarch64__)
	return access("/lib/ld-linux-aarch64.so.1", X_OK) == 0;
#else
	return true;
#endif
}

const char *distribution_add(void)
{
	return access("/sbin/apk", X_OK) == 0 ? "apk add" : "apt-get install";
}
