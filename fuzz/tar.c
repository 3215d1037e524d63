/* An archive from a sandbox: each entry is one, or there is an error; its name and its link are taken apart. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/copy_in.h"
#include "cli/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

struct tar_input {
	const uint8_t *at;
	size_t left;
};

static ssize_t take(void *arg, void *to, size_t room, struct err *err)
{
	struct tar_input *input = arg;
	size_t n = room < input->left ? room : input->left;
	(void)err;
	memcpy(to, input->at, n);
	input->at += n;
	input->left -= n;
	return (ssize_t)n;
}

/* The sum of a header is right, or nothing would ever be read. */
static void make_right(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 512 <= size; at += 512) {
		unsigned sum = 0;
		if (data[at + 148] != 'S')
			continue;
		memset(data + at + 148, ' ', 8);
		for (size_t i = 0; i < 512; i++)
			sum += data[at + i];
		for (int i = 6; i-- > 0; sum >>= 3)
			data[at + 148 + (size_t)i] = (uint8_t)('0' + (sum & 7));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	auto_free uint8_t *data = xmalloc(size + 1);
	auto_free struct tar_entry *entry = xcalloc(1, sizeof *entry);
	struct err err;
	char piece[1000];
	memcpy(data, input, size);
	make_right(data, size);
	struct tar_input from = { data, size };
	struct tar_in in = { .read = take, .arg = &from };
	while (tar_next(&in, entry, &err) == 1) {
		int depth = 0;
		if (entry->size < 0 || strlen(entry->name) >= TAR_NAME_MAX)
			abort();
		(void)tar_read(&in, piece, sizeof piece, &err);
		const char *name = copy_in_name(entry->name, &depth);
		if (name && (*name == '/' || !strncmp(name, "../", 3) || strstr(name, "/../")))
			abort();
		if (copy_in_stays(entry->link, depth) && *entry->link == '/')
			abort();
	}
	return 0;
}
