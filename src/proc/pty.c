#include "proc/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/user.h"

int pty_open(const struct user *owner, int *ret_master, int *ret_slave, struct err *err)
{
	char name[64];
	struct termios modes;
	auto_close int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
	    ptsname_r(master, name, sizeof name))
		return errno == ENOSPC ? err_set(err, ERR_LIMIT,
						 "there are no more terminals: end a session")
				       : err_set(err, errno, "no terminal");
	auto_close int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_set(err, errno, "open '%s'", name);
	if (tcgetattr(slave, &modes) == 0) {
		modes.c_iflag |= IUTF8;
		tcsetattr(slave, TCSANOW, &modes);
	}
	if (owner && owner->other)
		(void)!fchown(slave, owner->uid, (gid_t)-1);
	*ret_master = TAKE_FD(master);
	*ret_slave = TAKE_FD(slave);
	return 0;
}

int pty_resize(int fd, int cols, int rows)
{
	struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };
	return ioctl(fd, TIOCSWINSZ, &size);
}
