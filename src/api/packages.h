/* packages.h - the packages that Python and Node.js of the sandbox find. */
#pragma once
#include "net/route.h"

handler packages_python, packages_nodejs;
extern const struct field packages_data; /* what both answer */
