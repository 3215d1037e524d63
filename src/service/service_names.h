/* service_names.h - the services that a box can be asked to have ready from its start: the name in a
 * box's `services`, the option of a box's server that says so, and what it is. */
#pragma once

#define SERVICE_NAMES(ROW) ROW("jupyter", "AIO_KERNEL_READY", "a Python kernel")
