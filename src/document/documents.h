/* documents.h - PDF, Word, spreadsheet and slide files, and whatever else markitdown reads, as text.
 *
 * A warm Python process (share/documents/worker.py), started on first use as the sandbox user, forks
 * one short-lived child per document. The child has a memory limit and a deadline, and is killed when
 * the caller leaves: what a hostile document does to it, it does to nobody else. The process is ended
 * when it was idle for long enough. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct call;
struct err;
struct server;

/* Largest text of a document: what ret buffers should be able to hold. */
enum { DOCUMENT_TEXT_MAX = 32 << 20 };

/* From 1, both ends included; last -1: to the end. { 0, 0 }: everything. */
struct document_range {
	int64_t first, last;
};

struct document_request {
	struct call *call; /* who asks: given up when they leave */
	int fd;            /* the document: a regular file, open for reading */
	const char *name;  /* its file name, whose extension tells the kind */
	struct document_range pages, rows, slides; /* of PDF, of spreadsheets, of slides */
	const char *sheet;                         /* of a spreadsheet; NULL: all */
};

/* Whether document_view() is for files of this name: PDF, Word, spreadsheets, slides. */
bool document_viewable(const char *name);

/* Appends the text of a document, or of the part that the ranges name; a range that is none, is
 * outside the document, or is for another kind of document is an error. ret_metadata (may be NULL)
 * is set to a new object: "format", and "total_pages", "sheets": [{"name", "rows", "columns"}] with
 * "total_sheets", or "total_slides". fd's offset may move.
 *
 * Errors: ERR_INVALID (not such a document, damaged, hostile, or a bad range), ERR_TOO_LARGE (file or
 * text beyond the limit, or needs too much memory), ERR_SLOW (takes too long), ERR_GONE (the caller
 * left), ERR_UNAVAILABLE (markitdown is not installed, the worker was killed, or the server stops). */
int document_view(const struct document_request *request, struct buf *ret, json_t **ret_metadata,
		  struct err *err);

/* Appends the resource as Markdown: an http, https, file or data URI, read as the sandbox user.
 * Further errors: ERR_BAD_REQUEST (not such a URI), ENOENT and EACCES (of a file), ERR_NOT_FOUND (the
 * resource could not be fetched). */
int document_convert(struct call *call, const char *uri, size_t len, struct buf *ret,
		     struct err *err);

/* Unpacks a zip archive into an existing, empty directory as the sandbox user. Only plain files and
 * directories below it are made; anything else in the archive, or too much of it, is ERR_INVALID or
 * ERR_TOO_LARGE, and what was written by then stays for the caller to remove. */
int document_unpack(struct call *call, int zip_fd, const char *dir, struct err *err);

/* Starts nothing yet: the process is a service (service.h), "documents". */
void document_setup(struct server *server);
