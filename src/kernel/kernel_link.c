/* Another client of a kernel, with sockets and an identity of its own. */
#include <poll.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "kernel/kernel_message.h"
#include "kernel/kernel_state.h"
#include "kernel/kernel_wire.h"
#include "kernel/zmtp.h"
#include "kernel/zsock.h"
#include "proc/program.h"

enum { IDENTITY = 32, LINK_CHANNELS = KERNEL_LINK_FDS - 1 };

static const char *const channels[] = { "shell", "iopub", "stdin", "control" };
static const char delimiter[] = "<IDS|MSG>";

struct kernel_link {
	struct kernel *kernel;
	struct kernel_message_key *signs;
	struct zsock *socks[LINK_CHANNELS];
	char identity[IDENTITY + 1], asked[IDENTITY + 1]; /* asked: the id of its own request */
	bool hears;
};

static struct kernel_link *link_new(struct kernel *kernel)
{
	struct kernel_link *link = xcalloc(1, sizeof *link);
	link->kernel = kernel_ref(kernel);
	link->signs = kernel_message_key_new(kernel->key);
	kernel_random(link->identity, IDENTITY);
	kernel_random(link->asked, IDENTITY);
	return link;
}

void kernel_link_free(struct kernel_link *link)
{
	if (!link)
		return;
	for (size_t i = 0; i < LINK_CHANNELS; i++)
		zsock_free(link->socks[i]);
	kernel_message_key_free(link->signs);
	kernel_unref(link->kernel);
	free(link);
}

/* A request of its own on control, which a busy kernel answers too. */
static int ask(struct kernel_link *link, const char *type, struct err *err)
{
	struct kernel_message_out message;
	struct buf content = BUF(16);
	(void)buf_str(&content, "{}");
	kernel_message_make(&message, link->signs, link->identity, link->asked, type, &content);
	int result = zsock_send(link->socks[CHANNEL_CONTROL], message.frames, MESSAGE_FRAMES, err);
	kernel_message_out_done(&message);
	return result;
}

static int open_channel(struct kernel_link *link, enum kernel_channel channel, struct err *err)
{
	link->socks[channel] = kernel_open_channel(link->kernel, channel, link->identity, err);
	return link->socks[channel] ? 0 : -1;
}

struct kernel_link *kernel_link_open(struct kernel *kernel, struct err *err)
{
	struct kernel_link *link = link_new(kernel);
	int result = open_channel(link, CHANNEL_IOPUB, err);
	for (int i = 0; i < LINK_CHANNELS && result == 0; i++)
		if (i != CHANNEL_IOPUB)
			result = open_channel(link, (enum kernel_channel)i, err);
	/* One that does not greet its subscribers says something once it is asked. */
	if (result == 0 && !kernel->welcomes)
		result = ask(link, "kernel_info_request", err);
	if (result == 0)
		return link;
	kernel_link_free(link);
	return NULL;
}

bool kernel_link_poll(const struct kernel_link *link, struct pollfd fds[KERNEL_LINK_FDS])
{
	bool all = !kernel_ended(link->kernel);
	for (size_t i = 0; i < LINK_CHANNELS; i++) {
		fds[i] = (struct pollfd){ .fd = zsock_fd(link->socks[i]), .events = POLLIN };
		all = all && fds[i].fd >= 0;
	}
	fds[LINK_CHANNELS] =
		(struct pollfd){ .fd = program_fd(link->kernel->program), .events = POLLIN };
	return all;
}

bool kernel_link_hears(const struct kernel_link *link)
{
	return link->hears;
}

static int send_message(struct kernel_link *link, struct zsock *to,
			const struct kernel_wire *message, struct err *err)
{
	char signature[MESSAGE_SIGNATURE];
	struct text frames[2 + KERNEL_WIRE_PARTS + KERNEL_WIRE_BUFFERS];
	kernel_message_sign(link->signs, message->parts, signature);
	frames[0] = (struct text){ delimiter, sizeof delimiter - 1 };
	frames[1] = (struct text){ signature, strlen(signature) };
	memcpy(frames + 2, message->parts, sizeof message->parts);
	memcpy(frames + 2 + KERNEL_WIRE_PARTS, message->buffers,
	       message->buffer_count * sizeof *message->buffers);
	return zsock_send(to, frames, 2 + KERNEL_WIRE_PARTS + message->buffer_count, err);
}

int kernel_link_send(struct kernel_link *link, const struct kernel_wire *message, struct err *err)
{
	for (size_t i = 0; i < LINK_CHANNELS; i++)
		if (i != CHANNEL_IOPUB && !strcmp(channels[i], message->channel))
			return send_message(link, link->socks[i], message, err);
	return err_set(err, ERR_BAD_REQUEST, "there is no channel '%s' to send to",
		       message->channel);
}

/* What the server has asked for itself, and the greeting, are nothing for clients. */
static bool is_own(const struct kernel_link *link, const struct message *message)
{
	return kernel_message_answers(message, link->asked) ||
	       !strcmp(message->type, "iopub_welcome") ||
	       memmem(message->parent.data, message->parent.len, KERNEL_WITHDRAW,
		      strlen(KERNEL_WITHDRAW));
}

bool kernel_link_recv(struct kernel_link *link, enum kernel_channel channel,
		      struct kernel_wire *ret)
{
	struct zsock *from = link->socks[channel];
	const struct text *frames;
	struct message message;
	for (size_t n; (n = zsock_recv(from, &frames));) {
		if (kernel_message_read(frames, n, link->signs, &message, NULL) < 0)
			continue;
		link->hears |= channel == CHANNEL_IOPUB;
		if (is_own(link, &message))
			continue;
		size_t more = message.count - KERNEL_WIRE_PARTS;
		*ret = (struct kernel_wire){ .buffer_count = more };
		if (more > KERNEL_WIRE_BUFFERS)
			continue;
		memcpy(ret->channel, channels[channel], strlen(channels[channel]));
		memcpy(ret->parts, message.parts, sizeof ret->parts);
		memcpy(ret->buffers, message.parts + KERNEL_WIRE_PARTS,
		       more * sizeof *ret->buffers);
		return true;
	}
	return false;
}

int kernel_interrupt_all(struct kernel *kernel, struct err *err)
{
	if (!kernel->by_message)
		return kernel_interrupt(kernel, err);
	/* Not by the socket that kernel_run() may be using. */
	struct kernel_link *link = link_new(kernel);
	int result = open_channel(link, CHANNEL_CONTROL, err);
	if (result == 0)
		result = ask(link, "interrupt_request", err);
	kernel_link_free(link);
	return result;
}
