/* file_editor.h - one call of the editor. The commands are in file_editor.c, the looking at files and
 * directories, which changes nothing, in file_view.c. */
#pragma once
#include "base/desc.h"
#include "proc/user.h"

struct call;
struct err;

struct editor {
	const char *command, *path, *path_b64;
	struct text file_text, old_str, new_str;
	int64_t insert_line;
	struct list view_range;
	const char *replace_mode;
	struct list page_range, row_range, slide_range;
	const char *sheet_name;
	bool enable_metadata;
};

struct edited {
	struct text output;
	const char *error, *path;
	bool prev_exist;
	struct text old_content, new_content;
	json_t *metadata;
};

struct edit {
	struct call *call;
	const struct editor *r;
	const char *path;
	const char *message; /* of a failure, where there is more to say than the error does */
	struct edited result;
	struct user_view rights; /* the sandbox user's, until they are left */
};

/* Says what is wrong in the words that clients of this tool look for. Always -1. */
int file_editor_fail(struct edit *edit, struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The command `view`: with the rights of the sandbox user already. */
int file_view(struct edit *edit, struct err *err);

/* Makes lines of a text, first to last, the output, with something said before and after. */
void file_view_snippet(struct edit *edit, const char *said, const char *of, struct text text,
		       int64_t first, int64_t last, const char *then);
