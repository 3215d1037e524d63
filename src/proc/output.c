#include "proc/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

void output_done(struct output *output)
{
	buf_done(&output->memory);
	own_close(&output->fd);
	*output = OUTPUT;
}

/* Writes at the end of the file: how much went there. */
static size_t file_add(struct output *output, const char *data, size_t len)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n =
			pwrite(output->fd, data + done, len - done, output->size + (int64_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* A file without a name, in the first place that takes one. */
static int open_file(void)
{
	const char *const dirs[] = { getenv("TMPDIR"), "/tmp", "/var/tmp" };
	for (size_t i = 0; i < COUNT(dirs); i++) {
		char path[4096];
		int fd = dirs[i] ? open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
		if (fd >= 0)
			return fd;
		/* Not every file system can make one without a name. */
		if (!dirs[i] ||
		    (size_t)snprintf(path, sizeof path, "%s/aio-XXXXXX", dirs[i]) >= sizeof path ||
		    (fd = mkostemp(path, O_CLOEXEC)) < 0)
			continue;
		unlink(path);
		return fd;
	}
	return -1;
}

static void spill(struct output *output)
{
	int fd = open_file();
	if (fd < 0)
		return;
	int64_t size = output->size;
	output->fd = fd;
	output->size = 0;
	size_t moved = file_add(output, output->memory.data, (size_t)size);
	output->size = size;
	if ((int64_t)moved == size) {
		buf_done(&output->memory);
	} else { /* the disk is full: what is in memory stays there */
		output->fd = -1;
		close(fd);
	}
}

void output_add(struct output *output, const char *data, size_t len)
{
	if (output->fd < 0 && !output->lost && output->size + (int64_t)len > OUTPUT_MEMORY_MAX)
		spill(output);
	int64_t max = output->fd >= 0 ? OUTPUT_MAX : OUTPUT_MEMORY_MAX;
	size_t room = (size_t)(max - output->size), kept = len < room ? len : room;
	output->memory.cap = OUTPUT_MEMORY_MAX;
	if (output->lost)
		kept = 0; /* what follows a gap would stand at a wrong offset */
	else if (output->fd >= 0)
		kept = file_add(output, data, kept);
	else
		buf_add(&output->memory, data, kept);
	output->size += (int64_t)kept;
	output->lost += (int64_t)(len - kept);
}

size_t output_read(const struct output *output, int64_t offset, char *to, size_t room)
{
	if (offset < 0 || offset >= output->size)
		return 0;
	if ((int64_t)room > output->size - offset)
		room = (size_t)(output->size - offset);
	if (output->fd < 0) {
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
