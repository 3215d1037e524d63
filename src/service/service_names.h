/* service_names.h - the services that people know by name: the name in a box's `services`, the option
 * of a box's server that has it ready from the start, the variable that disables it, and what it is. */
#pragma once

#define SERVICE_NAMES(ROW)                                                              \
	ROW("jupyter", "AIO_KERNEL_READY", "DISABLE_JUPYTER", "a Python kernel")        \
	ROW("browser", "AIO_BROWSER_READY", "DISABLE_BROWSER", "the desktop's browser") \
	ROW("code-server", "AIO_CODE_SERVER_READY", "DISABLE_CODE_SERVER", "the editor")
