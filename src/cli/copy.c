/* aio file cp: files and directories between this machine and sandboxes, or between two. What passes is an archive: 'tar' in
 * the sandbox makes or takes it, on the stream that 'aio exec' uses too; here it is ours. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/bash_ws.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/copy_in.h"
#include "cli/copy_notes.h"
#include "cli/copy_out.h"
#include "cli/endpoint.h"
#include "cli/exec_stream.h"
#include "cli/meter.h"
#include "cli/tar.h"

enum { SCRIPT_MAX = 1 << 18, SAID_MAX = 1 << 16, LINE_LEN = 64, INTERRUPTED = 130 };

/* One end of a copy. */
struct copy_end {
	const char *path;
	bool remote, stream; /* stream: standard input or output */
	struct endpoint at;
};

/* ---- words ---- */

/* "BOX:path", ":path", "-", or a path of this machine. */
static int take_end(const char *word, const struct endpoint_flags *flags, struct copy_end *ret,
		    struct err *err)
{
	const char *colon = strchr(word, ':'), *slash = strchr(word, '/');
	*ret = (struct copy_end){ .path = word };
	ret->stream = !strcmp(word, "-");
	ret->remote = colon && (!slash || colon < slash);
	if (!ret->remote)
		return *word ? 0 : err_set(err, ERR_INVALID, "an empty path");
	auto_free char *box = xstrndup(word, (size_t)(colon - word));
	struct endpoint_flags where = *flags;
	ret->path = colon[1] ? colon + 1 : ".";
	if (*box) {
		where.box = box;
		where.url = NULL;
	}
	return endpoint_find(&where, &ret->at, err);
}

/* The last part of a path; "" where it is a directory of any name: then its contents are meant. */
static char *name_of(const char *path)
{
	size_t len = strlen(path);
	while (len && path[len - 1] == '/')
		len--;
	size_t from = len;
	while (from && path[from - 1] != '/')
		from--;
	char *name = xstrndup(path + from, len - from);
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		*name = 0;
	return name;
}

/* ---- what the sandbox runs ---- */

/* NAME='…'; a byte that is not text as \xHH. */
static void put_variable(struct buf *to, const char *name, const char *value)
{
	buf_printf(to, "%s=$'", name);
	for (const char *c = value; *c; c++) {
		unsigned char byte = (unsigned char)*c;
		if (byte < ' ' || byte >= 0x7f || byte == '\'' || byte == '\\')
			buf_printf(to, "\\x%02x", byte);
		else
			buf_add(to, c, 1);
	}
	buf_str(to, "'\n");
}

/* Its first line is what comes and how much: "d 12345"; the rest is the archive. Of a file for standard output: the
 * file. */
static const char send_script[] =
	"if [ -d \"$p\" ]; then\n"
	"	[ \"$raw\" ] && echo \"'$p' is a directory\" >&2 && exit 1\n"
	"	cd -- \"$p\" || exit 1\n"
	"	n=$(du -sb . 2>/dev/null) || n=0\n"
	"	printf 'd %s\\n' \"${n%%[!0-9]*}\"\n"
	"	exec tar -cf - .\n"
	"elif [ -f \"$p\" ]; then\n"
	"	[ \"$raw\" ] && exec cat -- \"$p\"\n"
	"	case $p in /*) ;; *) p=./$p ;; esac\n"
	"	n=$(stat -Lc %s \"$p\") || n=0\n"
	"	cd -- \"${p%/*}/\" || exit 1\n"
	"	printf 'f %s\\n' \"$n\"\n"
	"	exec tar -chf - \"./${p##*/}\"\n"
	"elif [ -e \"$p\" ]; then\n"
	"	echo \"'$p' is neither a file nor a directory\" >&2\n"
	"else\n"
	"	echo \"there is no '$p'\" >&2\n"
	"fi\n"
	"exit 1\n";

static const char take_tree_script[] =
	"[ -d \"$t\" ] && [ \"$n\" ] && t=${t%/}/$n\n"
	"if [ -e \"$t\" ] && [ ! -d \"$t\" ]; then echo \"'$t' is not a directory\" >&2; exit 1; fi\n"
	"mkdir -p -- \"$t\" && cd -- \"$t\" && exec tar -xpof -\n"
	"exit 1\n";

/* Whole or not at all: into a directory of its own first. */
static const char take_file_script[] =
	"case $t in /*) ;; *) t=./$t ;; esac\n"
	"[ \"$n\" ] && { [ -d \"$t\" ] || [ \"${t%/}\" != \"$t\" ]; } && t=${t%/}/$n\n"
	"[ -d \"$t\" ] && echo \"'$t' is a directory\" >&2 && exit 1\n"
	"[ -L \"$t\" ] && l=$(readlink -f -- \"$t\" && echo x) && t=${l%?x}\n"
	"d=${t%/*}/\n"
	"mkdir -p -- \"$d\" && w=$(mktemp -d \"$d.aio-cp-XXXXXX\") || exit 1\n"
	"trap 'rm -rf -- \"$w\"' EXIT\n"
	"if [ \"$raw\" ]; then cat >\"$w/$f\"; else tar -xpof - -C \"$w\"; fi &&\n"
	"mv -f -- \"$w/$f\" \"$t\"\n";

static int run_there(const struct copy_end *end, const struct buf *script, struct exec_io *io,
		     struct err *err)
{
	if (script->full)
		return err_set(err, ERR_INVALID, "the path is too long");
	const struct exec_start start = { .command = script->data,
					  .cols = INT64_MIN,
					  .rows = INT64_MIN };
	io->errors = -1;
	io->ends_here = true;
	return exec_stream(&end->at, &start, io, err);
}

/* Its words on standard error, harmless to a terminal. */
static void repeat(const struct copy_end *end, struct buf *said)
{
	char *line = said->data, *next;
	for (; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		auto_free char *text = xasprintf("%s: %s", end->at.name, line);
		ask_make_plain(text, strlen(text), false);
		fprintf(stderr, "aio file cp: %s\n", text);
		if (!next)
			break;
	}
}

static int ended(const struct copy_end *end, int status, struct buf *said, struct err *err)
{
	repeat(end, said);
	if (status <= 0)
		return status;
	return err_set(err, ERR_BAD_REQUEST,
		       status == 127 ? "%s has no 'tar': install it there"
				     : "%s could not copy all of it",
		       end->at.name);
}

/* ---- where it comes from: a thread that writes into a pipe ---- */

struct copy_source {
	struct copy_end end;
	struct copy_out local;
	struct copy_notes notes;
	struct meter *meter; /* of what a sandbox sends */
	int to;
	int result;
	struct err err;
};

static void send_there(struct copy_source *source)
{
	auto_buf struct buf script = BUF(SCRIPT_MAX), said = BUF(SAID_MAX);
	struct exec_io io = { .in = -1, .out = source->to, .said = &said };
	if (source->meter) {
		io.moved = meter_moved;
		io.arg = source->meter;
	}
	put_variable(&script, "p", source->end.path);
	buf_str(&script, "raw=\n");
	buf_str(&script, send_script);
	int status = run_there(&source->end, &script, &io, &source->err);
	if (source->meter)
		meter_end(source->meter);
	source->result = ended(&source->end, status, &said, &source->err);
	if (status == 128 + SIGPIPE) /* nobody took it: the other end says why */
		source->err.code = EPIPE;
}

static void *send_all(void *arg)
{
	struct copy_source *source = arg;
	if (source->end.remote)
		send_there(source);
	else
		source->result =
			copy_out_write(&source->local, source->to, &source->notes, &source->err);
	close(source->to);
	return NULL;
}

/* ---- where it goes ---- */

static ssize_t read_pipe(void *arg, void *to, size_t room, struct err *err)
{
	ssize_t n;
	while ((n = read(*(int *)arg, to, room)) < 0 && errno == EINTR)
		;
	return n < 0 ? err_set(err, ERR_BAD_REQUEST, "reading: %s", strerror(errno)) : n;
}

/* The line in front of the archive. */
static int read_kind(int from, bool *ret_directory, int64_t *ret_total)
{
	char line[LINE_LEN];
	size_t n = 0;
	while (n + 1 < sizeof line && read(from, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	*ret_directory = *line == 'd';
	*ret_total = n > 2 ? strtoll(line + 2, NULL, 10) : 0;
	return (*line == 'd' || *line == 'f') && line[1] == ' ' ? 0 : -1;
}

static int take_here(const struct copy_end *end, const char *name, bool directory, int from,
		     struct copy_notes *notes, struct err *err)
{
	struct stat st;
	struct tar_in in = { .read = read_pipe, .arg = &from };
	bool is_dir = stat(end->path, &st) == 0 && S_ISDIR(st.st_mode);
	size_t len = strlen(end->path);
	bool slash = len && end->path[len - 1] == '/';
	auto_free char *inside = xasprintf("%s%s%s", end->path, slash ? "" : "/", name);
	const char *target = is_dir && *name ? inside : end->path;
	if (directory)
		return copy_in_tree(&in, target, !*name, notes, err);
	if (stat(target, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "'%s'", target);
	if (!is_dir && slash)
		return err_set(err, ENOENT, "the directory '%s'", end->path);
	return copy_in_file(&in, target, err);
}

static int take_there(const struct copy_end *end, const char *name, bool directory, bool raw,
		      int from, struct meter *meter, struct err *err)
{
	auto_buf struct buf script = BUF(SCRIPT_MAX), said = BUF(SAID_MAX);
	struct exec_io io = { .in = from, .out = -1, .said = &said };
	io.moved = meter_moved;
	io.arg = meter;
	auto_close int nothing = io.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	put_variable(&script, "t", end->path);
	put_variable(&script, "n", name);
	put_variable(&script, "f", raw ? "f" : name);
	buf_str(&script, raw ? "raw=1\n" : "raw=\n");
	buf_str(&script, directory ? take_tree_script : take_file_script);
	(void)nothing;
	int status = run_there(end, &script, &io, err);
	meter_end(meter);
	return ended(end, status, &said, err);
}

/* ---- both ---- */

/* The source's reason is the better one, unless the other end had left. */
static int settle(const struct copy_source *source, int result, struct err *err)
{
	copy_notes_end(&source->notes);
	if (source->result < 0 && (result == 0 || source->err.code != EPIPE)) {
		*err = source->err;
		return -1;
	}
	return result < 0 ? -1 : source->notes.count ? 1 : 0;
}

static int start(struct copy_source *source, pthread_t *thread, int *ret_from, struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	(void)fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	*ret_from = ends[0];
	source->to = ends[1];
	int code = thread_start_joinable(thread, send_all, source);
	if (code == 0)
		return 0;
	close(ends[0]);
	close(ends[1]);
	return err_set(err, code, "no thread");
}

/* Of contents for another sandbox: without the directory itself, which has its own mode there. */
static int drop_top(int from, struct err *err)
{
	auto_free struct tar_entry *entry = xcalloc(1, sizeof *entry);
	struct tar_in in = { .read = read_pipe, .arg = &from };
	if (tar_next(&in, entry, err) <= 0 || entry->type != TAR_DIR)
		return err_set(err, EPIPE, "nothing came");
	return 0;
}

static int pass(struct copy_source *source, const struct copy_end *to, const char *name, int from,
		struct meter *meter, struct copy_notes *notes, struct err *err)
{
	bool directory = source->local.directory;
	int64_t total = source->local.total;
	if (source->end.remote && read_kind(from, &directory, &total) < 0)
		return err_set(err, EPIPE, "nothing came");
	if (source->end.remote && to->remote && directory && !*name && drop_top(from, err) < 0)
		return -1;
	meter_start(meter, *name ? name : source->end.path, total);
	if (to->remote)
		return take_there(to, name, directory, false, from, meter, err);
	return take_here(to, name, directory, from, notes, err);
}

static int copy_all(struct copy_source *source, const struct copy_end *to, struct err *err)
{
	pthread_t thread = 0;
	struct meter meter = { 0 };
	struct copy_notes notes = { 0 };
	auto_free char *name = name_of(source->end.path);
	int from = -1;
	source->local.path = source->end.path;
	source->local.name = name;
	source->local.contents = !*name;
	if (!source->end.remote && copy_out_find(&source->local, err) < 0)
		return -1;
	if (source->end.remote && !to->remote)
		source->meter = &meter;
	if (start(source, &thread, &from, err) < 0) {
		source->meter = NULL;
		return -1;
	}
	int result = pass(source, to, name, from, &meter, &notes, err);
	close(from); /* with which a source that still writes ends */
	pthread_join(thread, NULL);
	source->meter = NULL;
	copy_notes_end(&notes);
	result = settle(source, result, err);
	return result == 0 && notes.count ? 1 : result;
}

/* ---- standard input and output ---- */

static int copy_stream(const struct copy_end *from, const struct copy_end *to, struct err *err)
{
	struct meter meter;
	if (from->stream) {
		meter_start(&meter, "-", 0);
		return take_there(to, "", false, true, STDIN_FILENO, &meter, err);
	}
	auto_buf struct buf script = BUF(SCRIPT_MAX), said = BUF(SAID_MAX);
	struct exec_io io = { .in = -1, .out = STDOUT_FILENO, .said = &said };
	put_variable(&script, "p", from->path);
	buf_str(&script, "raw=1\n");
	buf_str(&script, send_script);
	int status = run_there(from, &script, &io, err);
	return ended(from, status, &said, err);
}

/* ---- the command ---- */

static void help(void)
{
	puts("Usage: aio file cp [flags] SOURCE TARGET\n\n"
	     "Copies a file, or a directory with all that is in it, between this machine and a sandbox.\n"
	     "In the sandbox is what has a colon: BOX:PATH in a box of the host, :PATH in the sandbox of the\n"
	     "flags. A relative path there is in the workspace. '-' is standard input or output, for a file.\n"
	     "Both may be in sandboxes.\n\n"
	     "As 'cp -r': where TARGET is a directory, the copy is inside it; of a SOURCE that ends with\n"
	     "'/.', its contents are. Modes and times are kept, owners are not. Symbolic links are copied as\n"
	     "links; from a sandbox those that lead out of the directory are not copied. A file appears when\n"
	     "it is whole. The sandbox needs 'tar'.\n\n"
	     "Flags:\n"
	     "  -r\n      Nothing more: directories are always copied whole.");
	endpoint_help();
	puts("  --help\n      Print this and exit.\n\n"
	     "Exit status: 0; 1: something was not copied, and standard error says what; 2: wrong usage;\n"
	     "130: it was interrupted.");
}

/* 1 for --help. */
static int take_words(int argc, char **argv, struct endpoint_flags *flags, const char *ends[2],
		      struct err *err)
{
	int count = 0;
	bool words = false;
	for (int at = 0; at < argc;) {
		const char *arg = argv[at];
		if (words || *arg != '-' || !arg[1]) {
			if (count == 2)
				return err_set(err, ERR_INVALID,
					       "unexpected argument '%s' (see --help)", arg);
			ends[count++] = argv[at++];
			continue;
		}
		if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
			return 1;
		int took = endpoint_take(flags, argc, argv, &at, err);
		if (took < 0)
			return -1;
		words |= !took && !strcmp(arg, "--");
		if (!took && !words && strcmp(arg, "-r") != 0 && strcmp(arg, "-R") != 0)
			return err_set(err, ERR_INVALID, "unknown option '%s' (see --help)", arg);
		at += !took;
	}
	return count == 2 ? 0 : err_set(err, ERR_INVALID, "usage: aio file cp SOURCE TARGET");
}

static int check_ends(const struct copy_end *from, const struct copy_end *to, struct err *err)
{
	if (!from->remote && !to->remote)
		return err_set(err, ERR_INVALID,
			       "neither is in a sandbox: BOX:PATH or :PATH names what is");
	return 0;
}

/* Before there are threads: none of them takes a signal. */
static void block_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGQUIT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int copy(const struct endpoint_flags *flags, const char *ends[2], struct err *err)
{
	struct copy_source source = { .to = -1 };
	struct copy_end to = { 0 };
	int result = take_end(ends[0], flags, &source.end, err);
	if (result == 0)
		result = take_end(ends[1], flags, &to, err);
	if (result == 0)
		result = check_ends(&source.end, &to, err);
	block_signals();
	if (result == 0)
		result = source.end.stream || to.stream ? copy_stream(&source.end, &to, err)
							: copy_all(&source, &to, err);
	endpoint_done(&source.end.at);
	endpoint_done(&to.at);
	return result;
}

int cmd_copy(int argc, char **argv)
{
	struct endpoint_flags flags = { 0 };
	const char *ends[2] = { "", "" };
	struct err err = { 0 };
	int words = take_words(argc - 1, argv + 1, &flags, ends, &err);
	if (words > 0) {
		help();
		return 0;
	}
	int result = words < 0 ? -1 : copy(&flags, ends, &err);
	if (result >= 0)
		return result;
	ask_make_plain(err.msg, strlen(err.msg), false);
	fprintf(stderr, "aio file cp: %s\n", err.msg);
	return !strcmp(err.msg, "interrupted") ? INTERRUPTED : err.code == ERR_INVALID ? 2 : 1;
}
