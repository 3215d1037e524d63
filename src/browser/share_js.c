#include "browser/share_js.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"

int share_js_read(const struct config *config, const char *name, struct buf *to, struct err *err)
{
	auto_free char *path = xasprintf("%s/share/browser/%s.js", config->home, name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char data[16384];
	ssize_t n = -1;
	while (fd >= 0 && (n = read(fd, data, sizeof data)) > 0)
		(void)buf_add(to, data, (size_t)n);
	return n == 0 ? 0 : err_set(err, ERR_INTERNAL, "cannot read '%s'", path);
}
