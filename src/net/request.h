/* request.h - from a request's head to its answer: guard, route, credentials, fields, handler. */
#pragma once

struct conn;

/* Serves the request whose head conn->http holds. */
void request_serve(struct conn *conn);
