/* target.h - what a request is for: its target taken apart, and the names and ports that its Host
 * header can have. The box server and the host read them alike. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_head;

struct target {
	const char *path; /* not ended by a NUL where a query follows */
	size_t path_len;
	const char *query; /* without its '?'; NULL: none */
};

/* Takes "/path?query", "*", or "http://host/path?query", as a proxy's client sends it, apart. -1 with
 * ERR_BAD_REQUEST for all else. */
int target_split(const struct http_head *head, struct target *ret, struct err *err);

/* The name of a Host header, in lower case, without its port and a dot at its end. -1: malformed, or
 * there is none. */
int target_name(const char *host, char *to, size_t room);

/* Whether a name is the domain (may be NULL), or below it. */
bool target_below(const char *name, const char *domain);

/* A port as digits, of that length: 1 to 65535, or 0 for what is not a port. */
int target_port(const char *text, size_t len);

/* The port of a name "PORT-REST", with REST in *ret_rest. 0: the name does not begin with digits and
 * '-'; -1: these digits are not a port. */
int target_label(const char *name, const char **ret_rest);

/* The path that a proxy before this server has taken from the target, as its X-Forwarded-Prefix says, without a
 * slash at its end: "/sandbox". "" where there is none, or what it says is not a path and nothing else. */
enum { TARGET_OUTER_MAX = 200 };
void target_outer(const struct http_head *head, char to[TARGET_OUTER_MAX + 1]);

/* The port of a program in the sandbox that x-aio-proxy-port names, or the host name "PORT-NAME" (NAME:
 * localhost, the domain, or below them); 0: none. */
int target_preview(const struct http_head *head, const char *domain);
