/* display.h - the desktop of the sandbox: an X server that is also a VNC server, and a window manager.
 *
 * Two services: `display` is Xvnc, `windows` is openbox on it. Every command of the sandbox has DISPLAY
 * and XAUTHORITY from the start. In a box, a graphical program has the desktop started (display_door.h);
 * elsewhere it appears on it once it runs. */
#pragma once
#include "base/wait.h"

struct err;
struct gui;
struct server;
struct service_run;
struct x;
struct x_image;

void display_setup(struct server *server);

/* Once no service runs any more. */
void display_end(void);

/* A lease of the desktop, which is started if need be; to be given back by service_release(). */
struct service_run *display_use(const struct wait *wait, struct err *err);

/* Of such a lease: our connection to the X server, the picture of its screen, its pointer and keyboard, and
 * the path of its Unix socket for VNC. */
struct x *display_x(const struct service_run *run);
struct x_image *display_image(const struct service_run *run);
struct gui *display_gui(const struct service_run *run);
const char *display_rfb(const struct service_run *run);

/* What programs call it, ":0". */
const char *display_name(void);

/* Changes how large the screen is, also of the next one. */
int display_resize(const struct service_run *run, unsigned width, unsigned height,
		   const struct wait *wait, struct err *err);

/* A call with its connection has failed: if that is because it broke, the desktop is started anew when it
 * is used next, and this returns true. */
bool display_failed(struct service_run *run);

/* The directory of the desktop's own files, which is the sandbox user's alone; "" where there is none. */
const char *display_dir(void);
