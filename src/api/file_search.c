/* Text in files: grep through a tree, search in one file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "api/file.h"
#include "api/file_error.h"
#include "api/routes.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/own.h"
#include "base/utf8.h"
#include "fs/file_types.h"
#include "fs/file_user.h"
#include "fs/grep.h"
#include "fs/regular.h"
#include "net/call.h"
#include "net/server.h"

enum {
	SEARCH_MS = 60000,
	SEARCH_MATCHES_MAX = 100000,
	PATTERN_MAX = 32768,
};
#define FILE_SIZE_MAX ((int64_t)1 << 40)

/* ---- grep ---- */

struct grep_request {
	const char *path, *path_b64, *pattern, *max_file_size, *type;
	struct list include, exclude;
	bool case_insensitive, fixed_strings, multiline, recursive, sudo;
	int64_t context_before, context_after, max_results, offset;
};
static const struct field grep_fields[] = {
	STR(grep_request, path, REQUIRED, "File or directory to search.", .alias = "file"),
	STR(grep_request, pattern, REQUIRED,
	    "Regular expression, or plain text with `fixed_strings`.", .max_len = PATTERN_MAX),
	LIST(grep_request, include, OPTIONAL,
	     "Patterns of the files to search: of names (`*.py`), or with a slash of paths below `path`.",
	     .item = T_STR, .max_len = GLOB_SET_MAX),
	LIST(grep_request, exclude, OPTIONAL,
	     "Patterns of files and directories to leave out (`node_modules`, `*.min.js`).",
	     .item = T_STR, .max_len = GLOB_SET_MAX),
	BOOL(grep_request, case_insensitive, OPTIONAL, "Upper and lower case are the same.",
	     .def = "false"),
	BOOL(grep_request, fixed_strings, OPTIONAL, "The pattern is plain text.", .def = "false"),
	INT(grep_request, context_before, MIN | MAX, "Lines to show before each match.", .def = "0",
	    .min = 0, .max = GREP_CONTEXT_MAX),
	INT(grep_request, context_after, MIN | MAX, "Lines to show after each match.", .def = "0",
	    .min = 0, .max = GREP_CONTEXT_MAX),
	INT(grep_request, max_results, MIN | MAX, "Most matches in the answer.", .def = "500",
	    .min = 1, .max = 10000),
	STR(grep_request, max_file_size, OPTIONAL,
	    "Files larger than this are passed over: a number, with K, M or G.", .def = "1M",
	    .max_len = 30),
	BOOL(grep_request, multiline, OPTIONAL,
	     "A match may reach over lines; `.` matches a newline, too.", .def = "false"),
	INT(grep_request, offset, MIN, "Matches to pass over before the first in the answer.",
	    .def = "0", .min = 0),
	STR(grep_request, type, OPTIONAL,
	    "Kind of files to search, as ripgrep calls it: `py`, `js`, `rust`, `go`, …",
	    .max_len = 60),
	BOOL(grep_request, recursive, OPTIONAL, "Search the directories below, too.",
	     .def = "true"),
	BOOL(grep_request, sudo, OPTIONAL, "Search as root.", .def = "false"),
	FILE_B64(grep_request),
};
static const struct schema grep_schema = SCHEMA(grep_request, "FileGrepRequest", grep_fields);

/* Written by hand, because there may be many: these say what it looks like. */
struct match {
	const char *file, *path_b64;
	struct text line_content;
	int64_t line_number;
	struct each context_before, context_after;
	bool line_truncated;
};
static const struct field match_fields[] = {
	STR(match, file, 0, "Path of the file."),
	STR(match, path_b64, NULLABLE, "Base64 of the path when that is not UTF-8."),
	INT(match, line_number, 0, "Number of the line, from 1; of several, the first."),
	TEXT(match, line_content, 0, "The line, or the lines, without the last newline."),
	EACH(match, context_before, NULLABLE, "Lines before it, when asked for.", .item = T_STR),
	EACH(match, context_after, NULLABLE, "Lines after it, when asked for.", .item = T_STR),
	BOOL(match, line_truncated, 0, "The line is longer: this is the part around the match."),
};
static const struct schema match_schema = SCHEMA(match, "GrepMatch", match_fields);

struct grep_result {
	const char *path, *pattern;
	struct each matches;
	int64_t match_count, files_searched, files_matched;
	bool truncated;
};
static const struct field result_fields[] = {
	STR(grep_result, path, REQUIRED, "What was searched."),
	STR(grep_result, pattern, REQUIRED, "The pattern."),
	EACH(grep_result, matches, 0, "In the order of paths and lines.", .item = T_OBJ,
	     .of = &match_schema),
	INT(grep_result, match_count, 0, "All matches that were found, shown or not."),
	INT(grep_result, files_searched, NULLABLE,
	    "How many files were searched; ripgrep does not tell."),
	INT(grep_result, files_matched, NULLABLE, "How many of them have a match."),
	BOOL(grep_result, truncated, 0, "There are more matches than these: go on with `offset`."),
};
static const struct schema result_schema = SCHEMA(grep_result, "FileGrepResult", result_fields);
static const struct field result_data = FILE_RESULT(&result_schema);

/* "1M", "500K", "2GB", "1048576". */
static int parse_size(const char *text, int64_t *ret, struct err *err)
{
	static const char units[] = "KMGT";
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	int shift = unit ? (int)(unit - units + 1) * 10 : 0;
	end += unit != NULL;
	end += unit && (*end == 'i' || *end == 'I');
	end += *end == 'B' || *end == 'b';
	if (*text < '0' || *text > '9' || *end || errno || value > FILE_SIZE_MAX)
		return err_set(err, ERR_INVALID,
			       "max_file_size: '%.30s' is not a size such as 1M or 500K", text);
	*ret = value > FILE_SIZE_MAX >> shift ? FILE_SIZE_MAX : (int64_t)value << shift;
	return 0;
}

/* Lines of context. The first line of a match of several holds them all. */
struct file_search_context {
	const char *text;
	const struct grep_line *lines;
	size_t count;
};

static void write_lines(void *arg, const struct schema *of, struct jw *jw)
{
	const struct file_search_context *context = arg;
	(void)of;
	for (size_t i = 0; i < context->count; i++) {
		const char *text = context->text + context->lines[i].at;
		const char *newline = memchr(text, '\n', context->lines[i].len);
		size_t len = newline ? (size_t)(newline - text) : context->lines[i].len;
		len -= newline && len && text[len - 1] == '\r';
		jw_text(jw, text, len);
	}
}

static void write_match(const struct grep_spec *spec, const struct grep_hit *hit,
			const struct schema *of, struct jw *jw)
{
	auto_buf struct buf path = BUF(1 << 17), coded = BUF(1 << 18);
	const char *text = hit->file->text.data, *below = hit->file->path;
	struct file_search_context before = { text, hit->before, hit->before_count };
	struct file_search_context after = { text, hit->after, hit->after_count };
	buf_printf(&path, "%s%s%s", spec->path, *below && strcmp(spec->path, "/") ? "/" : "",
		   below);
	if (!utf8_valid(path.data, path.len))
		base64_encode(&coded, path.data, path.len);
	struct match match = {
		.file = path.data,
		.path_b64 = coded.data,
		.line_number = hit->line->number,
		.line_content = { text + hit->line->at, hit->line->len },
		.context_before = { spec->before ? write_lines : NULL, &before },
		.context_after = { spec->after ? write_lines : NULL, &after },
		.line_truncated = hit->line->cut,
	};
	desc_encode(of, &match, jw);
}

static void write_matches(void *arg, const struct schema *of, struct jw *jw)
{
	struct grep *grep = arg;
	for (struct grep_hit hit = { 0 }; grep_next(grep, &hit);)
		write_match(grep->spec, &hit, of, jw);
}

static int put_result(struct call *call, struct grep *grep, struct err *err)
{
	struct grep_result result = {
		.path = grep->spec->path,
		.pattern = grep->spec->pattern,
		.matches = { write_matches, grep },
		.match_count = (int64_t)grep->matches,
		.files_searched = grep->searched < 0 ? INT_ABSENT : grep->searched,
		.files_matched = (int64_t)grep->matched,
		.truncated = grep_truncated(grep),
	};
	return call_reply(call, &result, err);
}

/* The patterns of a kind of files. One that is not known may be to ripgrep. */
static int compile_type(struct call *call, const char *name, struct globs *ret, struct err *err)
{
	const char *patterns = name ? file_types_find(name) : NULL;
	if (!patterns)
		return 0;
	char *rest = arena_strdup(call->arena, patterns);
	const char **items = arena_alloc(call->arena, strlen(rest) * sizeof *items);
	size_t count = 0;
	for (char *item; (item = strsep(&rest, " "));)
		items[count++] = item;
	return globs_compile(ret, &(struct list){ count, items }, err);
}

/* What is to be searched: a directory, or a regular file. */
static int look(struct grep_spec *spec, struct stat *ret, struct err *err)
{
	if (stat(spec->path, ret) < 0)
		return err_set(err, errno, "'%.300s'", spec->path);
	spec->is_dir = S_ISDIR(ret->st_mode);
	auto_close int fd = spec->is_dir ? open(spec->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					 : regular_open(spec->path, NULL, err);
	if (fd < 0 && spec->is_dir)
		return err_set(err, errno, "'%.300s'", spec->path);
	return fd < 0 ? -1 : 0;
}

static int prepare(struct call *call, const struct grep_request *r, struct grep_spec *spec,
		   struct err *err)
{
	if (!spec->path || parse_size(r->max_file_size, &spec->max_file_size, err) < 0 ||
	    globs_compile(&spec->include, &r->include, err) < 0 ||
	    globs_compile(&spec->exclude, &r->exclude, err) < 0 ||
	    compile_type(call, spec->type_name, &spec->type, err) < 0)
		return -1;
	return file_user_of(call, r->sudo, &spec->user, err);
}

static int run(struct call *call, struct grep *grep, struct grep_spec *spec, bool sudo,
	       struct err *err)
{
	struct user_view view;
	struct stat st;
	if (file_user_enter(call, sudo, &view, err) < 0)
		return -1;
	int result = look(spec, &st, err);
	if (result == 0 && !spec->is_dir && st.st_size > spec->max_file_size)
		call->hint = "The file is larger than max_file_size and was not searched.";
	else if (result == 0)
		result = grep_run(grep, err);
	user_leave(&view);
	return result;
}

static int grep_files(struct call *call, const void *in, struct err *err)
{
	const struct grep_request *r = in;
	struct grep_spec spec = {
		.path = file_path(call, r->path, r->path_b64, err),
		.pattern = r->pattern,
		.recursive = r->recursive,
		.fold = r->case_insensitive,
		.literal = r->fixed_strings,
		.multiline = r->multiline,
		.before = (int)r->context_before,
		.after = (int)r->context_after,
		.offset = (size_t)(r->offset < GREP_MATCHES_MAX ? r->offset : GREP_MATCHES_MAX),
		.max_results = (size_t)r->max_results,
		.type_name = r->type && *r->type ? r->type : NULL,
		.wait = call_until(call, clock_ms() + SEARCH_MS),
	};
	struct grep grep;
	grep_init(&grep, &spec);
	int result = prepare(call, r, &spec, err);
	if (result == 0)
		result = run(call, &grep, &spec, r->sudo, err);
	if (result < 0) {
		struct err cause = *err;
		result = file_error(call, "grep", spec.path ? spec.path : r->path, &cause, err);
	} else {
		call->message = arena_printf(call->arena, "Search completed, found %zu matches",
					     grep.matches);
		if (grep.why)
			call->hint =
				arena_printf(call->arena,
					     "The search ended early, because %s: narrow it down.",
					     grep.why);
		result = put_result(call, &grep, err);
	}
	globs_done(&spec.include);
	globs_done(&spec.exclude);
	globs_done(&spec.type);
	grep_done(&grep);
	return result;
}

/* ---- search ---- */

struct search_request {
	const char *file, *path_b64, *regex;
	bool sudo;
};
static const struct field search_fields[] = {
	STR(search_request, file, REQUIRED, "File to search.", .alias = "path"),
	STR(search_request, regex, REQUIRED,
	    "Regular expression (PCRE2), matched against each line.", .max_len = PATTERN_MAX,
	    .alias = "pattern"),
	BOOL(search_request, sudo, OPTIONAL, "Read as root.", .def = "false"),
	FILE_B64(search_request),
};
static const struct schema search_schema =
	SCHEMA(search_request, "FileSearchRequest", search_fields);

struct search_result {
	const char *file;
	struct each matches, line_numbers;
	bool truncated;
};
static const struct field found_fields[] = {
	STR(search_result, file, REQUIRED, "The file."),
	EACH(search_result, matches, 0, "The lines that match.", .item = T_STR),
	EACH(search_result, line_numbers, 0, "Their numbers, from 1.", .item = T_INT),
	BOOL(search_result, truncated, 0, "There are more than are shown."),
};
static const struct schema found_schema = SCHEMA(search_result, "FileSearchResult", found_fields);
static const struct field found_data = FILE_RESULT(&found_schema);

static void write_contents(void *grep, const struct schema *of, struct jw *jw)
{
	(void)of;
	for (struct grep_hit hit = { 0 }; grep_next(grep, &hit);)
		jw_text(jw, hit.file->text.data + hit.line->at, hit.line->len);
}

static void write_numbers(void *grep, const struct schema *of, struct jw *jw)
{
	(void)of;
	for (struct grep_hit hit = { 0 }; grep_next(grep, &hit);)
		jw_int(jw, hit.line->number);
}

static int put_found(struct call *call, struct grep *grep, struct err *err)
{
	struct search_result result = { grep->spec->path,
					{ write_contents, grep },
					{ write_numbers, grep },
					grep_truncated(grep) };
	return call_reply(call, &result, err);
}

static int search_file(struct call *call, const void *in, struct err *err)
{
	const struct search_request *r = in;
	struct user_view view;
	struct grep_spec spec = {
		.path = file_path(call, r->file, r->path_b64, err),
		.pattern = r->regex,
		.max_file_size = (int64_t)file_edit_max(call),
		.max_results = SEARCH_MATCHES_MAX,
		.wait = call_until(call, clock_ms() + SEARCH_MS),
	};
	struct grep grep;
	grep_init(&grep, &spec);
	int result = spec.path ? file_user_enter(call, r->sudo, &view, err) : -1;
	if (result == 0) {
		result = grep_pcre(&grep, err);
		user_leave(&view);
	}
	if (result == 0 && grep.binary)
		result = err_set(err, EILSEQ, "'%.300s' is not a text file", spec.path);
	if (result < 0) {
		struct err cause = *err;
		result = file_error(call, "search", spec.path ? spec.path : r->file, &cause, err);
	} else {
		call->message = arena_printf(call->arena, "Search completed, found %zu matches",
					     grep.matches);
		result = put_found(call, &grep, err);
	}
	grep_done(&grep);
	return result;
}

static const struct route routes[] = {
	{ "POST", "/v1/file/grep", grep_files, &grep_schema, &result_data,
	  "Search for text in many files",
	  "With ripgrep, where it is installed. Hidden files are searched too, and ignore files have no "
	  "say; not searched are .git, .hg and .svn, files that are not text, and what symbolic links "
	  "lead to." },
	{ "POST", "/v1/file/search", search_file, &search_schema, &found_data,
	  "Search for text in one file" },
};
const struct route_group file_search_group = { "file", "Searching.", routes, COUNT(routes) };
