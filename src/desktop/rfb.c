#include "desktop/rfb.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

enum {
	SECURITY_NONE = 1,
	REST_MAX = 64 << 20, /* of a message that is left out */
	FENCE_MAX = 64,
	ENCODINGS_MAX = 1024,
	NO_ENCODING = 0x7fffffff, /* that no server knows */
};

static uint32_t u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t u16(const unsigned char *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* ---- the messages of a client ---- */

/* How much of a message comes after its first bytes; more than REST_MAX: it is refused. */
typedef uint64_t message_rest(const unsigned char *head);

static uint64_t fence_rest(const unsigned char *head)
{
	return head[8] <= FENCE_MAX ? head[8] : UINT64_MAX;
}

static uint64_t encodings_rest(const unsigned char *head)
{
	return u16(head + 2) <= ENCODINGS_MAX ? u16(head + 2) : UINT64_MAX;
}

/* A negative length is that of an extended message. */
static uint64_t cut_text_rest(const unsigned char *head)
{
	int64_t len = (int32_t)u32(head + 4);
	return (uint64_t)(len < 0 ? -len : len);
}

static uint64_t desktop_size_rest(const unsigned char *head)
{
	return (uint64_t)head[6] * 16;
}

/* QEMU's: a key, audio on or off, and the format of that. */
static uint64_t qemu_rest(const unsigned char *head)
{
	if (head[1] == 0)
		return 8;
	if (head[1] == 1 && u16(head + 2) <= 2)
		return u16(head + 2) == 2 ? 6 : 0;
	return UINT64_MAX;
}

static const struct rfb_message {
	unsigned char type, head; /* how many bytes say how long it is */
	bool passes;
	message_rest *rest;
} messages[] = {
	{ 0, 20, true, NULL },                /* SetPixelFormat */
	{ 2, 4, true, encodings_rest },       /* SetEncodings */
	{ 3, 10, true, NULL },                /* FramebufferUpdateRequest */
	{ 150, 10, true, NULL },              /* EnableContinuousUpdates */
	{ 248, 9, true, fence_rest },         /* Fence */
	{ 4, 8, false, NULL },                /* KeyEvent */
	{ 5, 6, false, NULL },                /* PointerEvent */
	{ 6, 8, false, cut_text_rest },       /* ClientCutText */
	{ 250, 4, false, NULL },              /* xvp */
	{ 251, 8, false, desktop_size_rest }, /* SetDesktopSize */
	{ 255, 4, false, qemu_rest },         /* QEMU */
};

/* Of the encodings those that are about pictures. With some of the others messages of the client would be
 * of another length, or the server would offer what a viewer may not have. */
static const struct rfb_range {
	int32_t from, to;
} encodings[] = {
	{ 0, 2 },                   /* Raw, CopyRect, RRE */
	{ 4, 8 },                   /* CoRRE, Hextile, zlib, Tight, zlibhex */
	{ 15, 16 },                 /* TRLE, ZRLE */
	{ 21, 21 },                 /* JPEG */
	{ 50, 50 },                 /* H.264 */
	{ -32, -23 },               /* JPEG quality */
	{ -224, -223 },             /* LastRect, DesktopSize */
	{ -240, -239 },             /* XCursor, Cursor */
	{ -256, -247 },             /* compression level */
	{ -260, -260 },             /* TightPNG */
	{ -308, -307 },             /* ExtendedDesktopSize, DesktopName */
	{ -314, -312 },             /* Cursor with alpha, ContinuousUpdates, Fence */
	{ -512, -412 },             /* JPEG quality, fine */
	{ -768, -763 },             /* JPEG subsampling */
	{ 0x574d5664, 0x574d5664 }, /* VMware's cursor */
};

static bool is_picture(int32_t encoding)
{
	for (size_t i = 0; i < COUNT(encodings); i++)
		if (encodings[i].from <= encoding && encoding <= encodings[i].to)
			return true;
	return false;
}

static const struct rfb_message *find(unsigned char type)
{
	for (size_t i = 0; i < COUNT(messages); i++)
		if (messages[i].type == type)
			return &messages[i];
	return NULL;
}

/* ---- the stream ---- */

static int broken(struct rfb_viewer *viewer, struct err *err, const char *why)
{
	viewer->state = RFB_BROKEN;
	return err_set(err, ERR_FORBIDDEN, "not a viewer's RFB: %s", why);
}

static void go_to(struct rfb_viewer *viewer, enum rfb_state state)
{
	viewer->state = state;
	viewer->have = 0;
}

static int take_version(struct rfb_viewer *viewer, struct buf *out, struct err *err)
{
	if (memcmp(viewer->head, "RFB 003.007\n", 12) != 0 &&
	    memcmp(viewer->head, "RFB 003.008\n", 12) != 0)
		return broken(viewer, err, "the version is neither 3.7 nor 3.8");
	buf_add(out, viewer->head, 12);
	go_to(viewer, RFB_SECURITY);
	return 0;
}

static int take_security(struct rfb_viewer *viewer, struct buf *out, struct err *err)
{
	if (viewer->head[0] != SECURITY_NONE)
		return broken(viewer, err, "the security type is not None");
	buf_add(out, viewer->head, 1);
	go_to(viewer, RFB_INIT);
	return 0;
}

/* Nobody else is to be disconnected for a viewer: the desktop is shared, whatever it says. */
static int take_init(struct rfb_viewer *viewer, struct buf *out)
{
	buf_add(out, "\1", 1);
	go_to(viewer, RFB_MESSAGE);
	return 0;
}

static int take_head(struct rfb_viewer *viewer, const struct rfb_message *message, struct buf *out,
		     struct err *err)
{
	viewer->left = message->rest ? message->rest(viewer->head) : 0;
	viewer->passes = message->passes;
	if (viewer->left > REST_MAX)
		return broken(viewer, err, "a message is too large or of an unknown kind");
	if (message->passes)
		buf_add(out, viewer->head, message->head);
	go_to(viewer, !viewer->left                     ? RFB_MESSAGE
		      : message->rest == encodings_rest ? RFB_ENCODINGS
							: RFB_REST);
	return 0;
}

static int take_encoding(struct rfb_viewer *viewer, struct buf *out)
{
	static const unsigned char none[] = { NO_ENCODING >> 24, 0xff, 0xff, 0xff };
	bool passes = is_picture((int32_t)u32(viewer->head));
	buf_add(out, passes ? viewer->head : none, 4);
	go_to(viewer, --viewer->left ? RFB_ENCODINGS : RFB_MESSAGE);
	return 0;
}

/* How many bytes the state needs before it can go on; 0: the message is unknown. */
static size_t wanted(const struct rfb_viewer *viewer)
{
	const struct rfb_message *message;
	switch (viewer->state) {
	case RFB_VERSION:
		return 12;
	case RFB_ENCODINGS:
		return 4;
	case RFB_MESSAGE:
		message = viewer->have ? find(viewer->head[0]) : NULL;
		return message ? message->head : !viewer->have;
	default:
		return 1;
	}
}

static int take(struct rfb_viewer *viewer, struct buf *out, struct err *err)
{
	switch (viewer->state) {
	case RFB_VERSION:
		return take_version(viewer, out, err);
	case RFB_SECURITY:
		return take_security(viewer, out, err);
	case RFB_INIT:
		return take_init(viewer, out);
	case RFB_ENCODINGS:
		return take_encoding(viewer, out);
	default:
		return take_head(viewer, find(viewer->head[0]), out, err);
	}
}

static size_t take_rest(struct rfb_viewer *viewer, const unsigned char *data, size_t len,
			struct buf *out)
{
	size_t n = len < viewer->left ? len : (size_t)viewer->left;
	if (viewer->passes)
		buf_add(out, data, n);
	viewer->left -= n;
	if (!viewer->left)
		go_to(viewer, RFB_MESSAGE);
	return n;
}

/* More bytes of a head; how many, and whether it is whole. */
static size_t fill(struct rfb_viewer *viewer, const unsigned char *data, size_t len,
		   bool *ret_whole)
{
	size_t want = wanted(viewer), n = want - viewer->have;
	n = n < len ? n : len;
	memcpy(viewer->head + viewer->have, data, n);
	viewer->have += n;
	/* The first byte of a message tells how many are its head. */
	*ret_whole = viewer->have == want && (viewer->state != RFB_MESSAGE || want > 1);
	return n;
}

void rfb_viewer_init(struct rfb_viewer *viewer)
{
	*viewer = (struct rfb_viewer){ 0 };
}

int rfb_viewer_pass(struct rfb_viewer *viewer, const void *data, size_t len, struct buf *out,
		    struct err *err)
{
	const unsigned char *at = data, *end = at + len;
	if (viewer->state == RFB_BROKEN)
		return broken(viewer, err, "it was refused before");
	while (at < end) {
		bool whole;
		if (viewer->state == RFB_REST) {
			at += take_rest(viewer, at, (size_t)(end - at), out);
			continue;
		}
		at += fill(viewer, at, (size_t)(end - at), &whole);
		if (!wanted(viewer))
			return broken(viewer, err, "a message of an unknown type");
		if (whole && take(viewer, out, err) < 0)
			return -1;
	}
	/* The server would take the next message for the rest of this one. */
	return out->full ? broken(viewer, err, "there is no room for it") : 0;
}
