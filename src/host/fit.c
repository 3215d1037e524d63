#include "host/fit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#define BASH "/bin/bash"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE }; /* not known: not compared */
#endif

enum { SEGMENTS_MAX = 64 };

static bool is_plain(const char *text)
{
	while (*text > ' ' && *text < 127)
		text++;
	return !*text;
}

/* The program that loads it: absent where only bash itself was copied. */
static int check_loader(int fd, const ElfW(Ehdr) * head, struct err *err)
{
	for (int i = 0; i < head->e_phnum && i < SEGMENTS_MAX; i++) {
		ElfW(Phdr) segment;
		char path[256] = "";
		struct stat st;
		off_t at = (off_t)(head->e_phoff + (ElfW(Off))i * sizeof segment);
		if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
			return 0;
		if (segment.p_type != PT_INTERP || segment.p_filesz >= sizeof path ||
		    pread(fd, path, segment.p_filesz, (off_t)segment.p_offset) <= 0)
			continue;
		if (*path != '/' || !is_plain(path))
			continue;
		if (stat(path, &st) < 0 || !(st.st_mode & 0111))
			return err_set(err, ERR_INVALID,
				       BASH
				       " of the image needs %s, which the image lacks: install "
				       "bash with the image's own package manager",
				       path);
	}
	return 0;
}

int fit_check(struct err *err)
{
	struct stat st;
	ElfW(Ehdr) head = { 0 };
	auto_close int fd = open(BASH, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return err_set(
			err, ERR_INVALID,
			"the image has no " BASH ", which runs every command and shell of a "
			"box: install it there ('RUN apk add bash' or 'RUN apt-get install -y "
			"bash' in its Dockerfile) and import it again");
	bool program = pread(fd, &head, sizeof head, 0) == sizeof head &&
		       !memcmp(head.e_ident, ELFMAG, SELFMAG);
	if (program && MACHINE != EM_NONE && head.e_machine != MACHINE)
		return err_set(err, ERR_INVALID,
			       BASH
			       " of the image is for another processor: pull or build the image "
			       "for this machine's");
	return program ? check_loader(fd, &head, err) : 0;
}
