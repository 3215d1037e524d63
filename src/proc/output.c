#include "proc/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_done(struct output *output)
{
	buf_done(&output->memory);
	if (output->fd > 0)
		close(output->fd);
	*output = (struct output){ 0 };
}

/* Writes at the end of the file: how much went there. */
static size_t file_add(struct output *output, const char *data, size_t len)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = pwrite(output->fd, data + done, len - done, output->size + (int64_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void spill(struct output *output)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	output->fd = fd;
	int64_t size = output->size;
	output->size = 0;
	output->size = (int64_t)file_add(output, output->memory.data, (size_t)size);
	output->lost += size - output->size;
	buf_done(&output->memory);
}

void output_add(struct output *output, const char *data, size_t len)
{
	int64_t left = OUTPUT_MAX - output->size;
	size_t take = output->lost ? 0 : (int64_t)len < left ? len : (size_t)left;
	size_t kept = 0;
	output->memory.cap = OUTPUT_MEMORY_MAX;
	if (!output->fd && output->size + (int64_t)take > OUTPUT_MEMORY_MAX)
		spill(output);
	if (output->fd > 0)
		kept = file_add(output, data, take);
	else if (buf_add(&output->memory, data, take) == 0)
		kept = take;
	output->size += (int64_t)kept;
	output->lost += (int64_t)(len - kept);
}

size_t output_read(const struct output *output, int64_t offset, char *to, size_t room)
{
	if (offset < 0 || offset >= output->size)
		return 0;
	if ((int64_t)room > output->size - offset)
		room = (size_t)(output->size - offset);
	if (output->fd <= 0) {
		memcpy(to, output->memory.data + offset, room);
		return room;
	}
	size_t done = 0;
	while (done < room) {
		ssize_t n = pread(output->fd, to + done, room - done, offset + (int64_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}
