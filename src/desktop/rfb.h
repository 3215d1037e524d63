/* rfb.h - what a client that may only look sends to a VNC server (RFB 3.7 and 3.8, RFC 6143). Pure.
 *
 * Messages that ask for pictures pass. Input, the clipboard and new sizes of the screen are left out. What
 * is unknown ends the connection, because nobody can tell where its next message begins. The server sees
 * whole messages of the kinds that pass and nothing else, however the client's bytes are split. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum { RFB_HEAD_MAX = 20 };

enum rfb_state {
	RFB_VERSION,
	RFB_SECURITY,
	RFB_INIT,
	RFB_MESSAGE,   /* its first bytes, as many as tell how long it is */
	RFB_REST,      /* bytes that pass, or do not, with the message's first ones */
	RFB_ENCODINGS, /* of which each passes or not */
	RFB_BROKEN,
};

struct rfb_viewer {
	enum rfb_state state;
	unsigned char head[RFB_HEAD_MAX];
	size_t have;   /* of the head */
	uint64_t left; /* bytes of the rest, or encodings */
	int passes;    /* the rest */
};

/* A connection begins: all zero is fine, too. */
void rfb_viewer_init(struct rfb_viewer *viewer);

/* Takes the next bytes of the client; what of them may pass is appended to `out`, at most len and
 * RFB_HEAD_MAX bytes. -1 with ERR_FORBIDDEN, from then on: the connection is to be closed. */
int rfb_viewer_pass(struct rfb_viewer *viewer, const void *data, size_t len, struct buf *out,
		    struct err *err);
