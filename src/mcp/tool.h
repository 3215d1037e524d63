/* tool.h - the tools that models call, declared as tables.
 *
 * A tool is a row: it names a route of the API, whose handler it calls without HTTP, and whose tables
 * say what it takes and gives. Where a tool's arguments differ from the route's, it has a table of
 * its own and a function that maps them. A row whose route the server does not have is left out. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct bridge_answer;
struct err;
struct exchange;
struct field;
struct jw;
struct schema;
struct server;

/* One call of a tool. What it gives is one of: content and perhaps structured; or a whole result. */
struct tool_use {
	struct exchange *ex;
	struct arena *arena;
	const json_t *args; /* an object */
	json_t *content;    /* a list, never NULL */
	json_t *structured; /* NULL: none */
	json_t *whole;      /* NULL: made of the others */
	const char *hint;   /* of the route that tool_ask() called; NULL: it gave none */
	bool failed;
};

typedef int tool_call(struct tool_use *use, const void *in, struct err *err);

enum tool_flag {
	TOOL_READS = 1 << 0,      /* changes nothing */
	TOOL_DESTROYS = 1 << 1,   /* may overwrite or delete */
	TOOL_REPEATABLE = 1 << 2, /* twice is the same as once */
	TOOL_OUTSIDE = 1 << 3,    /* reaches beyond the sandbox */
	TOOL_SLOW = 1 << 4,       /* may take long: has a thread of its own */
	TOOL_ALIAS = 1 << 5,      /* answered, not listed */
	TOOL_OWN = 1 << 6,        /* takes the client's own session where none is named */
};

struct tool {
	const char *name, *title;
	const char *help;         /* for models: when to use it, what it gives, limits */
	const char *route;        /* "POST /v1/bash/exec"; NULL: needs none */
	const struct schema *in;  /* NULL: the route's */
	tool_call *call;          /* NULL: the route, with the arguments as they are */
	const struct schema *out; /* of what is structured; NULL: the route's data, or none */
	unsigned flags;
	const char *aliases;     /* other names, separated by commas */
	const char *schema_json; /* instead of `in`: a schema written by hand */
};

struct tool_table {
	const char *server; /* "sandbox" */
	const struct tool *tools;
	size_t count;
	bool hidden; /* another name for some of the same: not shown among servers */

	/* The tools of another table under their first alias, for those that want this server's only. */
	bool by_alias;

	/* Its tools are listed while this says so, and otherwise says why not; NULL: always. */
	bool (*is_usable)(char *ret_why, size_t room);
};

/* The built-in ones; ends with NULL. The server of the tests (tests/fixture) adds a table of its own. */
extern const struct tool_table *const tool_tables[];
extern const struct tool_table *tool_extra;

/* A row that this server has. */
struct tool_entry {
	const struct tool *tool;
	const struct tool_table *table;
	char *name;
	const struct route *route; /* NULL: needs none */
	char *json;                /* as tools/list shows it */
	size_t json_len;
};

/* The rows of this server, made once; the server's tables never change. */
const struct tool_entry *tool_entries(struct server *server, size_t *ret_count);
/* of: the name of the server that it must be of; NULL: any. */
const struct tool_entry *tool_find(struct server *server, const char *of, const char *name);
void tool_forget_all(void); /* for the end of the process */

/* Calls a tool: 0 with what it gives in `use`. What went wrong with the tool itself is in there too;
 * -1 only when there was nobody to answer. */
int tool_run(const struct tool_entry *entry, struct tool_use *use);

/* Calls it by its name, built-in or of another server, and writes the members of the result. */
int tool_call_named(struct exchange *ex, const char *server, const char *name, const json_t *args,
		    json_t **ret_result, struct err *err);
bool tool_is_slow(struct server *server, const char *name);

/* Whether the tools of its table are of use now; if not, why. */
bool tool_is_usable(const struct tool_entry *entry, char *ret_why, size_t room);

/* Whether tools/list shows a tool: aliases only to those who want just their server's (only). */
bool tool_wanted(const struct tool_entry *entry, const char *only);

/* ---- for those that implement tools ---- */

void tool_text(struct tool_use *use, const char *text, size_t len);
void tool_image(struct tool_use *use, const char *type, const void *data, size_t len);

/* Structured content, which is taken over, and the same as text. */
void tool_structured(struct tool_use *use, json_t *value);

/* The same in place of the structured content and its text, which come first. */
void tool_restructure(struct tool_use *use, json_t *value);

/* Adds the pictures of an output of code, by MIME type and in base64, as content that a model can see. */
void tool_pictures(struct tool_use *use, const json_t *data);
int tool_failed(struct tool_use *use, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A path that a model gave: relative ones begin at the workspace. A new string; NULL for NULL. */
json_t *tool_path(struct tool_use *use, const char *path);

/* Calls a route with arguments (taken over) and puts its answer into `use`. */
int tool_route(struct tool_use *use, const char *route, json_t *args, struct err *err);

/* Calls a route for its data: a new reference, or NULL after tool_failed(). Its hint is in `use`. */
json_t *tool_ask(struct tool_use *use, const char *route, json_t *args, struct err *err);

/* Calls a route for a file, of a type that begins so ("image/"), to be freed with buf_done(). -1 after
 * tool_failed(). */
int tool_file(struct tool_use *use, const char *route, const json_t *args, const char *type,
	      struct bridge_answer *ret, struct err *err);
