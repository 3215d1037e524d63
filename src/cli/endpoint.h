/* endpoint.h - the sandbox that a command calls: an address, or a box of the host. */
#pragma once

struct err;

struct endpoint_flags {
	const char *url, *key, *box;
};

/* Takes argv[*at…] where it is one of these flags: 1, 0 where it is another word, or -1. */
int endpoint_take(struct endpoint_flags *flags, int argc, char **argv, int *at, struct err *err);

/* Their part of the help, on stdout; and their names, up to a NULL. */
void endpoint_help(void);
extern const char *const endpoint_names[];

struct endpoint {
	char *origin,
		*prefix; /* "http://host:8080" and what stands before every path: "/s/NAME", "" */
	const char *headers[3]; /* that name the box, and its credential; up to a NULL */
	char *owned[2];
	char name[64]; /* for people: "box 'x'", "the sandbox" */
};

/* Where the flags, else the environment lead to. A box is asked for at the host. */
int endpoint_find(const struct endpoint_flags *flags, struct endpoint *ret, struct err *err);
void endpoint_done(struct endpoint *ep);
static inline void endpoint_own_done(struct endpoint *ep)
{
	endpoint_done(ep);
}
#define auto_endpoint __attribute__((cleanup(endpoint_own_done)))
