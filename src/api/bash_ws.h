/* bash_ws.h - the messages of /v1/bash/ws, which 'aio exec' sends and takes too. */
#pragma once
#include "base/desc.h"

/* The first one, from the caller. */
struct exec_start {
	const char *command; /* NULL: a shell */
	bool tty;
	int64_t cols, rows;
	const char *term;
};
struct exec_size {
	int64_t cols, rows;
};
struct exec_signal {
	const char *signal;
};
struct exec_taken {
	int64_t bytes;
};
struct exec_end {
	int64_t exit_code;
	const char *message; /* why it was killed, or could not be started; NULL: nothing to say */
};

extern const struct schema exec_start_schema;
extern const struct schema exec_takes; /* eof: nothing; resize: exec_size; signal: exec_signal */
extern const struct schema exec_sends; /* taken: exec_taken; exit, error: exec_end */
