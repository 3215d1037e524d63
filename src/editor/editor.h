/* editor.h - the editor of the sandbox: VS Code's server, for browsers, on a Unix socket.
 *
 * The service `code-server` is its server alone, without the wrapper of that name in front of it, which costs a
 * process and half a second. Who may call it has been checked when a request gets here: it asks for nothing
 * itself, and only the sandbox user can reach its socket. */
#pragma once

struct call;
struct err;
struct server;

/* Where the server believes to be: it sees whole paths, and its pages' links are relative. */
#define EDITOR_PATH "/code-server"

void editor_setup(struct server *server);

/* A stream to it, which is started if need be. It is not stopped for being idle before the call has been
 * answered. -1 with err. */
int editor_connect(struct call *call, struct err *err);

/* The path of its socket, for messages. */
const char *editor_socket(void);
