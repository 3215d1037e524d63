/* reports.h - the reports that there are: archives of bounded number and size, the oldest of which go. */
#pragma once
#include <stdint.h>

#include "base/desc.h"

struct archive;
struct arena;
struct err;
struct server;

enum { REPORTS_MAX = 20, REPORTS_REASON_MAX = 200 };
#define REPORTS_BYTES_MAX ((int64_t)64 << 20)

struct report {
	const char *report_id, *session_id, *reason, *created_at, *path;
	int64_t size_bytes;
};
extern const struct schema report_schema;

/* All, the newest first, in the arena. */
int reports_list(const struct server *server, struct arena *arena, struct list *ret,
		 struct err *err);
int reports_count(const struct server *server);

/* Opens one: a descriptor; ERR_NOT_FOUND. */
int reports_open(const struct server *server, const char *id, struct err *err);

/* Removes one, which is what it was. */
int reports_remove(const struct server *server, struct arena *arena, const char *id,
		   struct report *ret, struct err *err);

/* Makes one: fill() puts its files into the archive, with the sandbox user's rights. session_id may be
 * NULL. What report.json says is put by this. */
int reports_make(const struct server *server, struct arena *arena, const char *session_id,
		 const char *reason, void (*fill)(void *arg, struct archive *archive), void *arg,
		 struct report *ret, struct err *err);
