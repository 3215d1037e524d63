/* The tools of the server "sandbox": the primary set, which tools/list shows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/desc.h"
#include "base/err.h"
#include "base/own.h"
#include "config/config.h"
#include "mcp/code_tool.h"
#include "mcp/exchange.h"
#include "mcp/session.h"
#include "mcp/tools_table.h"
#include "net/server.h"
#include "proc/user.h"

enum { OUTPUT_CHARS = 30000 };

/* Sets a member unless there is nothing to set. */
static void set(json_t *object, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(object, key, value);
}

static json_t *text_of(const char *text)
{
	return text ? json_string(text) : NULL;
}

static json_t *number_of(double value)
{
	return isnan(value) ? NULL : json_real(value);
}

static json_t *integer_of(int64_t value)
{
	return value == INT_ABSENT ? NULL : json_integer(value);
}

static json_t *tri_of(enum tri value)
{
	return value == UNSET ? NULL : json_boolean(value == YES);
}

static json_t *strings_of(const struct list *list)
{
	const char *const *items = list->items;
	json_t *all = list->count ? json_array() : NULL;
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(all, json_string(items[i]));
	return all;
}

/* ---- context and packages ---- */

struct context_result {
	const char *info, *home_dir, *workspace, *user;
};
static const struct field context_fields[] = {
	STR(context_result, info, 0, "System, interpreters and tools, as text."),
	STR(context_result, home_dir, 0, "Home directory."),
	STR(context_result, workspace, 0, "Where commands start and relative paths begin."),
	STR(context_result, user, 0, "Who commands run as."),
};
static const struct schema context_schema =
	SCHEMA(context_result, "SandboxContext", context_fields);

static int get_context(struct tool_use *use, const void *in, struct err *err)
{
	(void)in;
	const struct config *config = use->ex->from.server->config;
	const struct user *user = user_sandbox(config->user, err);
	json_t *info = user ? tool_ask(use, "GET /v1/sandbox", json_object(), err) : NULL;
	if (!info)
		return user ? 0 : -1;
	tool_structured(use, json_pack("{s:o,s:s,s:s,s:s}", "info", info, "home_dir", user->home,
				       "workspace", config->workspace, "user", user->name));
	return 0;
}

static const char *const languages[] = { "python", "nodejs", "py", "node", "javascript", NULL };

struct packages {
	const char *language;
};
static const struct field packages_fields[] = {
	ENUM(packages, language, OPTIONAL, "Whose packages: python or nodejs; both when absent.",
	     .choices = languages),
};
static const struct schema packages_schema = SCHEMA(packages, "GetPackages", packages_fields);

static int put_packages(struct tool_use *use, const char *title, const char *route,
			struct buf *text, struct err *err)
{
	size_t i;
	json_t *list = tool_ask(use, route, json_object(), err), *package;
	if (!list)
		return -1;
	buf_printf(text, "%s%s\n", text->len ? "\n" : "", title);
	json_array_foreach(list, i, package)
		buf_printf(text, "  - %s==%s\n",
			   json_string_value(json_object_get(package, "name")),
			   json_string_value(json_object_get(package, "version")));
	json_decref(list);
	return 0;
}

static int get_packages(struct tool_use *use, const void *in, struct err *err)
{
	const char *language = ((const struct packages *)in)->language;
	auto_buf struct buf text = BUF(4 << 20);
	if ((!language || *language == 'p') &&
	    put_packages(use, "Python Packages:", "GET /v1/sandbox/packages/python", &text, err) <
		    0)
		return 0;
	if ((!language || *language != 'p') &&
	    put_packages(use, "Node.js Packages:", "GET /v1/sandbox/packages/nodejs", &text, err) <
		    0)
		return 0;
	tool_text(use, text.data, text.len);
	return 0;
}

/* ---- bash ---- */

struct bash {
	const char *command, *cwd, *session_id;
	double timeout, hard_timeout;
	struct list env;
	bool run_in_background, truncate;
};
static const struct field bash_fields[] = {
	STR(bash, command, REQUIRED, "Command line, run by bash.", .alias = "cmd,script",
	    .max_len = 1 << 20),
	STR(bash, cwd, OPTIONAL, "Directory to run it in; the workspace when absent.",
	    .alias = "exec_dir,working_dir,workdir"),
	NUM(bash, timeout, MIN | MAX,
	    "Seconds to wait for its end. Then the answer is status `running`, and it goes on.",
	    .def = "30", .min = 0, .max = 3600),
	NUM(bash, hard_timeout, MIN, "Seconds after which it is killed.", .min = 0),
	BOOL(bash, run_in_background, OPTIONAL,
	     "Answer at once, for servers and long jobs; read it with sandbox_bash_output.",
	     .def = "false", .alias = "async_mode,background"),
	BOOL(bash, truncate, OPTIONAL, "Cut the middle out of output over 30000 characters.",
	     .def = "true"),
	MAP(bash, env, OPTIONAL, "Environment variables for this command."),
	STR(bash, session_id, OPTIONAL, "Session that lists the command; your own when absent.",
	    .max_len = 64),
};
static const struct schema bash_schema = SCHEMA(bash, "ExecuteBash", bash_fields);

struct bash_result {
	const char *status, *output, *cwd, *session_id, *command_id, *hint;
	int64_t exit_code;
};
static const struct field bash_result_fields[] = {
	STR(bash_result, status, 0, "completed, running, timed_out or killed."),
	STR(bash_result, output, 0, "What it printed: stdout, then stderr."),
	INT(bash_result, exit_code, NULLABLE, "0 for success; null while it runs."),
	STR(bash_result, cwd, 0, "Where it ran."),
	STR(bash_result, session_id, 0, "For sandbox_bash_output, _input and _kill."),
	STR(bash_result, command_id, 0, "For the same."),
	STR(bash_result, hint, OMIT, "Why it may have failed, and what to do; often absent."),
};
static const struct schema bash_result_schema =
	SCHEMA(bash_result, "ExecuteBashResult", bash_result_fields);

static json_t *env_of(const struct list *env)
{
	const struct pair *pairs = env->items;
	json_t *object = env->count ? json_object() : NULL;
	for (size_t i = 0; i < env->count; i++)
		json_object_set_new(object, pairs[i].name, json_string(pairs[i].value));
	return object;
}

/* stdout, and after a line's end stderr. Either may hold NUL. */
static json_t *merged(const json_t *data)
{
	const json_t *out = json_object_get(data, "stdout"),
		     *errors = json_object_get(data, "stderr");
	size_t len = json_string_length(out), more = json_string_length(errors);
	auto_free char *both = xmalloc(len + more + 1);
	bool gap = len && more && json_string_value(out)[len - 1] != '\n';
	if (len)
		memcpy(both, json_string_value(out), len);
	if (gap)
		both[len] = '\n';
	if (more)
		memcpy(both + len + gap, json_string_value(errors), more);
	return json_stringn(both, len + gap + more);
}

static int execute_bash(struct tool_use *use, const void *in, struct err *err)
{
	const struct bash *bash = in;
	const char *own = session_own(use->ex->from.session);
	json_t *cwd = tool_path(use, bash->cwd ? bash->cwd : "");
	json_t *args = json_pack("{s:s,s:s,s:O,s:b,s:i}", "command", bash->command, "session_id",
				 bash->session_id ? bash->session_id
				 : own            ? own
						  : "",
				 "exec_dir", cwd, "async_mode", bash->run_in_background,
				 "max_output_length", bash->truncate ? OUTPUT_CHARS : 0);
	if (!args) {
		json_decref(cwd);
		return err_set(err, ERR_INVALID, "the command is not UTF-8");
	}
	set(args, "timeout", number_of(bash->timeout));
	set(args, "hard_timeout", number_of(bash->hard_timeout));
	set(args, "env", env_of(&bash->env));
	json_t *data = tool_ask(use, "POST /v1/bash/exec", args, err);
	/* While it runs the hint names routes, which a model does not call. */
	bool ended = !json_is_null(json_object_get(data, "exit_code"));
	if (data)
		tool_structured(use,
				json_pack("{s:O,s:o,s:O,s:O,s:O,s:O,s:s*}", "status",
					  json_object_get(data, "status"), "output", merged(data),
					  "exit_code", json_object_get(data, "exit_code"), "cwd",
					  cwd, "session_id", json_object_get(data, "session_id"),
					  "command_id", json_object_get(data, "command_id"), "hint",
					  ended ? use->hint : NULL));
	json_decref(data);
	json_decref(cwd);
	return 0;
}

/* ---- files ---- */

static const char *const actions[] = { "read", "write", "replace", "search", "find",
				       "list", "grep",  "glob",    NULL };
static const char *const encodings[] = { "utf-8", "base64", "raw", NULL };

struct sandbox_tools_file {
	const char *action, *path, *content, *target, *pattern, *encoding;
	int64_t start_line, end_line, max_results, context_before, context_after;
	struct list file_types, include, exclude;
	enum tri append, recursive, show_hidden, sudo, case_insensitive, fixed_strings;
	enum tri include_metadata, files_only;
};
static const struct field file_fields[] = {
	ENUM(sandbox_tools_file, action, REQUIRED,
	     "read; write (creates or overwrites); replace (content: old text, target: new text); "
	     "search (content: regex in one file); find (pattern: names like *.py); list; grep "
	     "(pattern: regex in a tree); glob (pattern like **/*.c).",
	     .choices = actions, .alias = "operation,command"),
	STR(sandbox_tools_file, path, REQUIRED,
	    "File or directory; relative ones are in the workspace.", .alias = "file,directory"),
	STR(sandbox_tools_file, content, OPTIONAL,
	    "What to write; for replace the old text, for search the regex.",
	    .alias = "text,old_str,regex"),
	STR(sandbox_tools_file, target, OPTIONAL, "For replace: the new text.", .alias = "new_str"),
	STR(sandbox_tools_file, pattern, OPTIONAL, "For find, grep and glob.", .alias = "glob"),
	ENUM(sandbox_tools_file, encoding, OPTIONAL, "Of content, when writing.",
	     .choices = encodings),
	INT(sandbox_tools_file, start_line, MIN | MAX,
	    "For read: the first line. Lines count from 1.", .min = 0, .max = 1e15),
	INT(sandbox_tools_file, end_line, MIN | MAX, "For read: the last line.", .min = 0,
	    .max = 1e15),
	TRI(sandbox_tools_file, append, OPTIONAL, "For write: add at the end."),
	TRI(sandbox_tools_file, recursive, OPTIONAL, "For list and grep: below the directory too."),
	TRI(sandbox_tools_file, show_hidden, OPTIONAL,
	    "For list and glob: names that begin with a dot."),
	LIST(sandbox_tools_file, file_types, OPTIONAL, "For list: extensions such as .py.",
	     .item = T_STR),
	TRI(sandbox_tools_file, sudo, OPTIONAL, "As root."),
	LIST(sandbox_tools_file, include, OPTIONAL, "For grep: globs of files to look in.",
	     .item = T_STR),
	LIST(sandbox_tools_file, exclude, OPTIONAL, "For grep and glob: globs to leave out.",
	     .item = T_STR),
	TRI(sandbox_tools_file, case_insensitive, OPTIONAL, "For grep."),
	TRI(sandbox_tools_file, fixed_strings, OPTIONAL, "For grep: the pattern is plain text."),
	INT(sandbox_tools_file, context_before, MIN, "For grep: lines before a match.", .min = 0),
	INT(sandbox_tools_file, context_after, MIN, "For grep: lines after a match.", .min = 0),
	INT(sandbox_tools_file, max_results, MIN, "For grep and glob.", .min = 1),
	TRI(sandbox_tools_file, include_metadata, OPTIONAL, "For glob: sizes and times."),
	TRI(sandbox_tools_file, files_only, OPTIONAL, "For glob: no directories."),
};
static const struct schema file_schema = SCHEMA(sandbox_tools_file, "FileOperations", file_fields);

static const struct file_action {
	const char *action, *route;
	const char *path;             /* what the route calls the path */
	const char *content, *target; /* and these; NULL: has none */
	const char *wanted;           /* which of them must be there */
} file_actions[] = {
	{ "read", "POST /v1/file/read", "file" },
	{ "write", "POST /v1/file/write", "file", "content", NULL, "content" },
	{ "replace", "POST /v1/file/replace", "file", "old_str", "new_str", "content" },
	{ "search", "POST /v1/file/search", "file", "regex", NULL, "content" },
	{ "find", "POST /v1/file/find", "path", "glob", NULL, "pattern" },
	{ "list", "POST /v1/file/list", "path" },
	{ "grep", "POST /v1/file/grep", "path", "pattern", NULL, "pattern" },
	{ "glob", "POST /v1/file/glob", "path", "pattern", NULL, "pattern" },
};

/* Only what a route knows is sent to it; the others are ignored. */
static json_t *file_arguments(struct tool_use *use, const struct sandbox_tools_file *file,
			      const struct file_action *to)
{
	json_t *args = json_object();
	const char *content = file->content;
	if (to->wanted && !strcmp(to->wanted, "pattern"))
		content = file->pattern ? file->pattern : file->content;
	else if (!content)
		content = file->pattern;
	set(args, to->path, tool_path(use, file->path));
	if (to->content)
		set(args, to->content, text_of(content));
	if (to->target)
		json_object_set_new(args, to->target,
				    json_string(file->target ? file->target : ""));
	set(args, "encoding", text_of(file->encoding));
	/* The route counts from 0, and its end is the line after the last. */
	set(args, "start_line",
	    integer_of(file->start_line > 0 ? file->start_line - 1 : file->start_line));
	set(args, "end_line", integer_of(file->end_line));
	set(args, "max_results", integer_of(file->max_results));
	set(args, "context_before", integer_of(file->context_before));
	set(args, "context_after", integer_of(file->context_after));
	set(args, "file_types", strings_of(&file->file_types));
	set(args, "include", strings_of(&file->include));
	set(args, "exclude", strings_of(&file->exclude));
	set(args, "append", tri_of(file->append));
	set(args, "recursive", tri_of(file->recursive));
	set(args, "show_hidden", tri_of(file->show_hidden));
	set(args, "include_hidden", tri_of(file->show_hidden));
	set(args, "sudo", tri_of(file->sudo));
	set(args, "case_insensitive", tri_of(file->case_insensitive));
	set(args, "fixed_strings", tri_of(file->fixed_strings));
	set(args, "include_metadata", tri_of(file->include_metadata));
	set(args, "files_only", tri_of(file->files_only));
	return args;
}

static int file_operations(struct tool_use *use, const void *in, struct err *err)
{
	const struct sandbox_tools_file *file = in;
	const struct file_action *to = file_actions;
	while (strcmp(to->action, file->action) != 0)
		to++;
	if (to->wanted && !file->content && !file->pattern)
		return tool_failed(use, "action %s needs %s", to->action, to->wanted);
	json_t *data = tool_ask(use, to->route, file_arguments(use, file, to), err);
	if (!data)
		return 0;
	json_t *result =
		json_pack("{s:s,s:s,s:b}", "action", to->action, "path", file->path, "success", 1);
	if (json_is_object(data))
		json_object_update_missing(result, data);
	const json_t *matches = json_object_get(data, "matches"),
		     *files = json_object_get(data, "files");
	if (!strcmp(to->action, "search"))
		set(result, "match_count", json_integer((json_int_t)json_array_size(matches)));
	if (!strcmp(to->action, "find"))
		set(result, "file_count", json_integer((json_int_t)json_array_size(files)));
	tool_structured(use, result);
	if (use->hint)
		tool_text(use, use->hint, strlen(use->hint));
	json_decref(data);
	return 0;
}

/* ---- skills ---- */

struct sandbox_tools_skill {
	const char *name;
};
static const struct field skill_fields[] = {
	STR(sandbox_tools_skill, name, OPTIONAL, "Which one; a list of all when absent.",
	    .max_len = 200),
};
static const struct schema skill_schema = SCHEMA(sandbox_tools_skill, "LoadSkill", skill_fields);

static void list_skills(struct tool_use *use, const json_t *data)
{
	auto_buf struct buf text = BUF(1 << 20);
	size_t i;
	json_t *skill, *skills = json_object_get(data, "skills");
	buf_printf(&text, "Skills Count: %zu\n", json_array_size(skills));
	json_array_foreach(skills, i, skill) {
		const char *about = json_string_value(
			json_object_get(json_object_get(skill, "metadata"), "description"));
		buf_printf(&text, "  - %s%s%s\n", json_string_value(json_object_get(skill, "name")),
			   about ? ": " : "", about ? about : "");
	}
	tool_text(use, text.data, text.len);
}

static int load_skill(struct tool_use *use, const void *in, struct err *err)
{
	const char *name = ((const struct sandbox_tools_skill *)in)->name;
	bool one = name && *name;
	json_t *data = one ? tool_ask(use, "GET /v1/skills/{name}/content",
				      json_pack("{s:s}", "name", name), err)
			   : tool_ask(use, "GET /v1/skills/metadatas", json_object(), err);
	if (data && !one) {
		list_skills(use, data);
	} else if (data) {
		const char *path = json_string_value(json_object_get(data, "path"));
		const char *content = json_string_value(json_object_get(data, "content"));
		const char *text = arena_printf(use->arena, "Base Path: %s\n\n%s", path ? path : "",
						content ? content : "");
		tool_text(use, text, strlen(text));
	}
	json_decref(data);
	return 0;
}

/* ---- the table ---- */

static const struct tool tools[] = {
	{ "sandbox_get_context", "Get sandbox context",
	  "Tells what this sandbox is: system, user, home and workspace directories, versions of "
	  "Python, Node.js and other interpreters, and the command-line tools that are installed. Call "
	  "it once before you rely on a program being there.",
	  "GET /v1/sandbox", NULL, get_context, &context_schema, TOOL_READS | TOOL_SLOW,
	  "get_sandbox_context,sandbox_get_sandbox_context,get_context" },
	{ "sandbox_get_packages", "List installed packages",
	  "Lists the Python and Node.js packages that programs in the sandbox can import, as lines "
	  "`  - name==version`. Use it to see whether something must be installed first.",
	  "GET /v1/sandbox/packages/python", &packages_schema, get_packages, NULL,
	  TOOL_READS | TOOL_SLOW, "sandbox_python_packages,sandbox_nodejs_packages" },
	{ "sandbox_execute_bash", "Run a command",
	  "Runs a bash command line in a fresh process and returns its output and exit code. cd, "
	  "export and variables do not last until the next call: chain with &&, or pass cwd and env. An "
	  "exit code other than 0 is not an error of the tool: read the output. A command that takes "
	  "longer than timeout goes on in the background; read it with sandbox_bash_output. Start "
	  "servers with run_in_background. There is no terminal and no input: pass -y and the like. "
	  "Your commands are listed in a session of your own, and those that still run end when you "
	  "disconnect. A client that connects without a session gets a new one with each call, which "
	  "lasts.",
	  "POST /v1/bash/exec", &bash_schema, execute_bash, &bash_result_schema,
	  TOOL_DESTROYS | TOOL_OUTSIDE | TOOL_SLOW, "bash,run_command" },
	{ "sandbox_bash_output", "Read a command's output",
	  "Reads what a command of sandbox_execute_bash has printed since the offsets (0 at first; "
	  "pass the returned ones next time), and whether it has ended. With wait it waits for news, at "
	  "most wait_timeout seconds: better than asking again and again.",
	  "POST /v1/bash/output", .flags = TOOL_READS | TOOL_SLOW },
	{ "sandbox_bash_input", "Write to a command",
	  "Writes to the standard input of a running command of sandbox_execute_bash. No newline is "
	  "added: end the input with \\n where the program waits for a line.",
	  "POST /v1/bash/write", .flags = TOOL_SLOW },
	{ "sandbox_bash_kill", "End a command",
	  "Sends a signal (SIGTERM unless given) to a running command of sandbox_execute_bash and all "
	  "it started.",
	  "POST /v1/bash/kill", .flags = TOOL_DESTROYS | TOOL_REPEATABLE | TOOL_SLOW },
	{ "sandbox_shell_exec", "Run in a terminal",
	  "Runs a command in a terminal session that lasts: cd, export, activated environments and ssh "
	  "stay for the next call. Without an id that is your own session, which ends when you "
	  "disconnect; a client that connects without a session gets a new one with each call, and "
	  "passes its session_id as id to go on with it. A session that you give an id of your choice "
	  "outlasts you, and others who know the id can use it. Use it for interactive programs and "
	  "for work that builds on what was done before; otherwise prefer sandbox_execute_bash. When "
	  "it answers `running`, look again with sandbox_shell_view, type with sandbox_shell_write. "
	  "exec_dir must be an absolute path.",
	  "POST /v1/shell/exec", .flags = TOOL_DESTROYS | TOOL_OUTSIDE | TOOL_SLOW | TOOL_OWN,
	  .aliases = "sandbox_exec_command,exec_command" },
	{ "sandbox_shell_view", "Look at a terminal",
	  "Shows a terminal session: its latest command, what it printed, and the screen.",
	  "POST /v1/shell/view", .flags = TOOL_READS | TOOL_SLOW,
	  .aliases = "sandbox_view_shell,view_shell" },
	{ "sandbox_shell_write", "Type into a terminal",
	  "Types text into a terminal session, with Enter after it if press_enter: for programs that "
	  "ask. \\u0003 is Ctrl-C.",
	  "POST /v1/shell/write", .flags = TOOL_DESTROYS | TOOL_SLOW,
	  .aliases = "sandbox_write_to_shell" },
	{ "sandbox_shell_kill", "End what runs in a terminal",
	  "Ends the program that runs in a terminal session; the session stays.",
	  "POST /v1/shell/kill", .flags = TOOL_DESTROYS | TOOL_REPEATABLE | TOOL_SLOW,
	  .aliases = "sandbox_kill_process" },
	{ "sandbox_execute_code", "Run code",
	  "Runs Python or JavaScript and returns what it printed, the value of its last expression, and "
	  "the traceback of an error; plots come as images. Each call starts afresh unless it is "
	  "stateful: then variables last in a session of your own, which ends when you disconnect, or "
	  "in the one that session_id names, which others who know the id can use. A client that "
	  "connects without a session gets a new one with each stateful call, and passes its "
	  "session_id to go on with it. At most 300 seconds. For shell commands use "
	  "sandbox_execute_bash.",
	  "POST /v1/code/execute", &code_tool_in, code_tool_run, &code_tool_out,
	  TOOL_DESTROYS | TOOL_OUTSIDE | TOOL_SLOW, "run_code,code_execute" },
	{ "sandbox_file_operations", "Work with files",
	  "Reads, writes, replaces text in, searches, finds and lists files. For edits of source code "
	  "prefer sandbox_str_replace_editor. Read large files in parts with start_line and end_line; "
	  "lines count from 1, as in the results of search and grep. Relative paths begin at the "
	  "workspace. grep returns at most 500 matches, glob 5000 files.",
	  "POST /v1/file/read", &file_schema, file_operations, NULL, TOOL_DESTROYS | TOOL_SLOW,
	  "file_operations" },
	{ "sandbox_str_replace_editor", "Edit a file",
	  "Views and edits text files. view shows a file with line numbers (view_range [from, to]), or "
	  "a directory. create writes a new file. str_replace replaces old_str, which must stand there "
	  "exactly and once, by new_str. insert puts new_str after insert_line. undo_edit takes the "
	  "last edit of a file back. Lines count from 1. path must be absolute: unlike other tools, it "
	  "does not take paths relative to the workspace.",
	  "POST /v1/file/str_replace_editor", .flags = TOOL_DESTROYS | TOOL_SLOW,
	  .aliases = "str_replace_based_edit_tool" },
	{ "sandbox_convert_to_markdown", "Convert to Markdown",
	  "Reads a document or page and returns it as Markdown. Takes http:, https:, file: and data: "
	  "URIs; HTML, PDF, Word, Excel, PowerPoint, CSV and others.",
	  "POST /v1/util/convert_to_markdown", .flags = TOOL_READS | TOOL_OUTSIDE | TOOL_SLOW,
	  .aliases = "documents_convert_to_markdown" },
	{ "sandbox_load_skill", "Load a skill",
	  "Skills are instructions for tasks, kept in the sandbox. Without a name it lists them; with "
	  "one it returns its text and the directory of its files. Look here before a special task.",
	  "GET /v1/skills/metadatas", &skill_schema, load_skill, NULL, TOOL_READS | TOOL_SLOW },
};
const struct tool_table sandbox_tools = { "sandbox", tools, COUNT(tools) };
