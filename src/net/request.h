/* request.h - from a request's head to its answer: guard, route, credentials, fields, handler. */
#pragma once

struct conn;
struct err;

/* Serves the request whose head conn->http holds. */
void request_serve(struct conn *conn);

/* Answers a request whose head could not be read. */
int request_refuse(struct conn *conn, const struct err *err);
