/* record_file.h - where recordings go. */
#pragma once

struct call;
struct err;

/* The path that a request means; where it has none, a new one: /tmp/recordings/{name}_{timestamp}.mp4.
 * NULL with err: it cannot be a path. */
const char *record_file(struct call *call, const char *save_path, const char *name,
			struct err *err);
