/* resource.h - what clients may read by a URI: the workspace's files, and what the server knows. */
#pragma once
#include <jansson.h>
#include <stddef.h>

struct buf;
struct arena;
struct err;
struct exchange;
struct server;

/* Resources beside ours, of the server of the tests (tests/fixture). Members are written to ex->jw. */
struct resource_extra {
	void (*list)(struct exchange *ex);      /* items of "resources" */
	void (*templates)(struct exchange *ex); /* items of "resourceTemplates" */
	/* 1 when it has written the items of "contents", 0 for a URI that is not its own. */
	int (*read)(struct exchange *ex, const char *uri);
};
extern const struct resource_extra *resource_extra;

/* Appends what sandbox://context says: given to mcp_setup(). */
typedef int resource_text(struct server *server, struct buf *to, struct err *err);
extern resource_text *resource_context;

/* The methods resources/list, resources/templates/list and resources/read. */
int resource_list(struct exchange *ex, struct err *err);
int resource_templates(struct exchange *ex, struct err *err);
int resource_read(struct exchange *ex, struct err *err);

/* The values that complete an argument of a template: paths that begin so. Writes strings. */
size_t resource_complete(struct exchange *ex, const char *begin, size_t most);

/* The path of a "file://" URI. -1 for any other. */
int resource_path(const char *uri, char *ret, size_t room, struct err *err);

/* The file: URI of a path, in the arena. */
const char *resource_uri(struct arena *arena, const char *path);

/* An item of a list, or of a reading's contents. Texts may be NULL. */
void resource_put(struct exchange *ex, const char *uri, const char *name, const char *title,
		  const char *help, const char *type, long long size);
void resource_put_text(struct exchange *ex, const char *uri, const char *type, const char *text,
		       size_t len);
void resource_put_blob(struct exchange *ex, const char *uri, const char *type, const void *data,
		       size_t len);
