/* desc.h - a struct described once, as a table of fields.
 *
 * From the table come: JSON or text into the struct with every limit checked, the problems in
 * FastAPI's shape, the struct into JSON, and the JSON Schema that documents all of it.
 *
 *	struct greet { const char *name; int64_t times; };
 *	static const struct field greet_fields[] = {
 *		STR(greet, name, REQUIRED, "Whom to greet.", .max_len = 100),
 *		INT(greet, times, MIN, "How often.", .def = "1", .min = 1),
 *	};
 *	const struct schema greet_schema = SCHEMA(greet, "GreetRequest", greet_fields);
 *
 * In C a field is:   STR const char *   TEXT struct text   INT int64_t    NUM double   BOOL bool
 * TRI enum tri   ENUM const char * (one of its choices)   JSON json_t *   OBJ pointer to a struct
 * LIST struct list (of strings, integers, numbers, booleans, JSON or structs)   MAP struct list of
 * struct pair, or in answers of struct named (.item = T_OBJ)   UNION struct tagged   FILE struct upload *   STREAM struct stream and EACH struct each, in answers.   Absent means NULL, INT_ABSENT, NAN,
 * UNSET or an empty list. */
#pragma once
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"

struct arena;
struct jw;
struct schema;

enum desc_type {
	T_STR,
	T_TEXT,
	T_INT,
	T_NUM,
	T_BOOL,
	T_TRI,
	T_ENUM,
	T_JSON,
	T_OBJ,
	T_LIST,
	T_MAP,
	T_UNION,
	T_FILE,
	T_STREAM,
};

enum desc_flag {
	OPTIONAL = 0, /* absent or null is fine */
	REQUIRED = 1 << 0,
	MIN = 1 << 1,   /* .min holds */
	MAX = 1 << 2,   /* .max holds */
	ABOVE = 1 << 3, /* .min itself is too small */
	ABSPATH = 1 << 4,
	QUERY = 1 << 5, /* where the field stands in a request, when not in the body */
	PATH = 1 << 6,
	HEADER = 1 << 7,
	NULLABLE = 1 << 8,   /* in an answer: may be null */
	BASE64 = 1 << 9,     /* in an answer: bytes, sent as base64 */
	HIDDEN = 1 << 10,    /* understood, not documented */
	SIZED = 1 << 11,     /* an INT that may also be sent as size.h has it: "256M" */
	PIECEWISE = 1 << 12, /* a LIST that is a struct each, in an answer */
	OMIT = 1 << 13,      /* in an answer: left out where it is absent */
	EXACT = 1 << 14,     /* a number or boolean that JSON itself must have as one */
	TIMED = 1 << 15,     /* a NUM of seconds: on the command line a duration */
};

#define INT_ABSENT INT64_MIN
enum tri { NO, YES, UNSET };

struct text {
	const char *data; /* NUL-terminated too, but may hold NUL */
	size_t len;
};
struct list {
	size_t count;
	const void *items;
};
struct pair {
	const char *name, *value;
};
struct named {
	const char *name;
	const void *value;
};
struct tagged {
	const char *tag; /* which variant */
	const void *value;
};
/* In an answer: a string that is read piece by piece while it is sent. */
struct stream {
	size_t (*read)(void *arg, int64_t at, char *to, size_t room); /* NULL: null */
	void *arg;
	int64_t start, end;
	int64_t cut,
		resume; /* what lies between is left out, with `middle` in its place; both 0: all */
	char middle[96];
};
/* In an answer: a list whose items are written one after the other, none of them kept. `of` is the
 * field's. */
struct each {
	/* NULL: null */
	void (*write)(void *arg, const struct schema *of, struct jw *jw);
	void *arg;
};
struct upload {
	int fd; /* a file without a name, at its start; closed with the call */
	int64_t size;
	int error; /* of the disk's, while it was received: then the file is empty */
	const char *name, *type;
};

struct field {
	const char *name;
	enum desc_type type;
	size_t at;
	unsigned flags;
	const char *help;
	const char *def; /* as text: "5", "true", "utf-8"; of a list, JSON */
	double min, max;
	size_t min_len, max_len;    /* characters of a string, items of a list; 0: none */
	const char *const *choices; /* of an ENUM, or of a list's items; ends with NULL */
	const struct schema *of; /* of OBJ, UNION, and a LIST of structs; of JSON, for the manual */
	const struct schema *other; /* of an OBJ in an answer: what may stand there instead */
	enum desc_type item;        /* of a LIST */
	const char *alias;          /* other spellings accepted, separated by commas */
	const char *example;        /* of a value, as JSON: for who sent another */
	const char *flag;           /* its name on the command line, where that is not its own */
};

struct variant {
	const char *tag;
	const struct schema *of;
	const char *help; /* what it says; NULL: its schema tells */
};

struct schema {
	const char *name; /* among the document's components */
	size_t size;      /* of the struct */
	const struct field *fields;
	size_t count;
	const char *help;
	bool strict;     /* in a body: no other fields than these */
	const char *tag; /* of a tagged union: the field that tells, and what it can say */
	const struct variant *variants;
	size_t variant_count;
	bool outside; /* that field stands beside the union, not in it: for answers only */
};

#define FIELD_AT(s, m, c_type)                                                                \
	(offsetof(struct s, m) +                                                              \
	 0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct s *)0)->m), c_type) \
				 ? 1                                                          \
				 : -1]))
/* What a type is in C, by the name of its macro. */
#define C_STR    const char *
#define C_TEXT   struct text
#define C_INT    int64_t
#define C_NUM    double
#define C_BOOL   bool
#define C_TRI    enum tri
#define C_ENUM   const char *
#define C_JSON   json_t *
#define C_LIST   struct list
#define C_MAP    struct list
#define C_UNION  struct tagged
#define C_STREAM struct stream
#define C_FILE   struct upload *

/* A field whose name in JSON is not the member's: NAMED("stdout", TEXT, result, out, 0, "…"). */
#define NAMED(json, t, s, m, f, h, ...)                                                   \
	{                                                                                 \
		.name = (json), .type = T_##t, .at = FIELD_AT(s, m, C_##t), .flags = (f), \
		.help = (h), __VA_ARGS__                                                  \
	}
#define STR(s, m, f, ...)  NAMED(#m, STR, s, m, f, __VA_ARGS__)
#define TEXT(s, m, f, ...) NAMED(#m, TEXT, s, m, f, __VA_ARGS__)
#define INT(s, m, f, ...)  NAMED(#m, INT, s, m, f, __VA_ARGS__)
#define NUM(s, m, f, ...)  NAMED(#m, NUM, s, m, f, __VA_ARGS__)
#define BOOL(s, m, f, ...) NAMED(#m, BOOL, s, m, f, __VA_ARGS__)
#define TRI(s, m, f, ...)  NAMED(#m, TRI, s, m, f, __VA_ARGS__)
#define ENUM(s, m, f, ...) NAMED(#m, ENUM, s, m, f, __VA_ARGS__)
#define JSON(s, m, f, ...) NAMED(#m, JSON, s, m, f, __VA_ARGS__)
#define OBJ(s, m, f, ...)                                                             \
	{                                                                             \
		.name = #m, .type = T_OBJ, .at = offsetof(struct s, m), .flags = (f), \
		.help = __VA_ARGS__                                                   \
	}
#define LIST(s, m, f, ...) NAMED(#m, LIST, s, m, f, __VA_ARGS__)
#define EACH(s, m, f, h, ...)                                                  \
	{                                                                      \
		.name = #m, .type = T_LIST, .at = FIELD_AT(s, m, struct each), \
		.flags = (f) | PIECEWISE, .help = (h), __VA_ARGS__             \
	}
#define MAP(s, m, f, ...)        NAMED(#m, MAP, s, m, f, __VA_ARGS__)
#define UNION(s, m, f, ...)      NAMED(#m, UNION, s, m, f, __VA_ARGS__)
#define STREAM(s, m, f, ...)     NAMED(#m, STREAM, s, m, f, __VA_ARGS__)
#define FILE_FIELD(s, m, f, ...) NAMED(#m, FILE, s, m, f, __VA_ARGS__)

#define SCHEMA(s, title, table, ...)                                          \
	{                                                                     \
		.name = (title), .size = sizeof(struct s), .fields = (table), \
		.count = COUNT(table), ##__VA_ARGS__                          \
	}
#define TAGGED(title, field_name, table, ...)                                        \
	{                                                                            \
		.name = (title), .size = sizeof(struct tagged), .tag = (field_name), \
		.variants = (table), .variant_count = COUNT(table), ##__VA_ARGS__    \
	}

/* What is wrong with a request: FastAPI's list of problems as JSON text. */
struct problems {
	struct buf json; /* "[{…},{…}"; the caller closes it */
	size_t count;
};

/* The place of a value in a request: ["body","files",0]. */
struct loc {
	const struct loc *up;
	const char *key; /* NULL: index */
	size_t index;
};

/* Fills the fields of `to` that stand in `place` (0 body, QUERY, PATH, HEADER) from a JSON object,
 * whose strings are taken for numbers and booleans where those are wanted. Values live in the
 * arena or in `from`. What is wrong is added to problems. */
void desc_decode(const struct schema *schema, unsigned place, const json_t *from,
		 const struct loc *loc, struct arena *arena, void *to, struct problems *problems);

/* desc_message.c: fills `to` from the text of a JSON object, such as a message of a WebSocket: a struct, or,
 * if the schema is a tagged union, a struct tagged, whose tag is NULL for a variant that is not known. A field
 * that is wrong counts as absent. -1: it is not an object, or, of a union, has no tag. */
int desc_message(const struct schema *schema, const char *text, size_t len, struct arena *arena,
		 void *to);

/* Adds a problem of the caller's own. input may be NULL. */
void desc_problem(struct problems *problems, const char *type, const struct loc *loc,
		  const char *message, const json_t *input);

/* desc_names.c: refuses names that a schema does not have, and tells which were perhaps meant. */
void desc_names(const struct schema *schema, const json_t *from, const struct loc *loc,
		struct problems *problems);

/* desc_encode.c: writes the struct as a JSON object; or one value as a field describes it. */
void desc_encode(const struct schema *schema, const void *from, struct jw *jw);
void desc_encode_value(const struct field *field, const void *value, struct jw *jw);

/* Writes a variant of a tagged union from its struct, with the tag as first member unless that stands
 * outside. -1: there is no such variant. */
int desc_encode_variant(const struct schema *schema, const char *tag, const void *from,
			struct jw *jw);
void desc_each_json(void *array, const struct schema *of, struct jw *jw); /* for a struct each */
size_t desc_item_size(const struct field *field); /* of one item of a list, in memory */

/* desc_schema.c: writes the JSON Schema of an object's fields that stand in `place`, of one field, and of a
 * reference to a schema. Fields of an answer are never "optional": `answer` tells which it is. */
void desc_schema(const struct schema *schema, unsigned place, bool answer, struct jw *jw);
void desc_field_schema(const struct field *field, bool answer, struct jw *jw);
void desc_schema_ref(const struct schema *schema, struct jw *jw);

/* desc_schema() of one of `count` schemas that are written side by side: if another one is a tagged union
 * of which it is a variant, its tag is a property of it. */
void desc_schema_among(const struct schema *schema, const struct schema *const *all, size_t count,
		       bool answer, struct jw *jw);

/* Calls fn for the schema, and while fn says true for every schema that one mentions. */
typedef bool desc_visit(const struct schema *schema, void *arg);
void desc_walk(const struct schema *schema, desc_visit *fn, void *arg);
