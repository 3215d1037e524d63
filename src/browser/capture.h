/* capture.h - a page as a picture or as a PDF. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/wait.h"

struct err;
struct tab;

/* Beyond these a picture is cut: pages that grow as one scrolls have no end. */
enum { CAPTURE_SIDE_MAX = 16384, CAPTURE_PIXELS_MAX = 32 << 20, CAPTURE_FILE_MAX = 48 << 20 };

struct capture {
	const char *format; /* "png", "jpeg" or "webp" */
	int64_t quality;    /* of the latter two; INT_ABSENT: 80 */
	bool full_page;
	const char *selector; /* of the element that is wanted; NULL: the page */
	int64_t index;        /* of that element, as the page's were listed; INT_ABSENT: none */
	int64_t timeout_ms;   /* for one of a selector to appear */
	bool marks;           /* with the index of each element that could be used */
	int64_t max_size; /* of the longer side: a larger picture is made smaller; INT_ABSENT: none is */
	int64_t width,
		height; /* at most so much of it, from its upper left corner; INT_ABSENT: all */
};

struct captured {
	struct buf file;
	int64_t width, height;           /* of the picture */
	int64_t page_width, page_height; /* of what was to be captured */
	double scale;                    /* of the picture; 1: pixel by pixel */
	bool cut;                        /* it was too large to be captured whole */
};

/* The picture in ret->file, which the caller has initialised. */
int capture_page(struct tab *tab, const struct capture *capture, struct captured *ret,
		 const struct wait *wait, struct err *err);

/* ---- PDF ---- */

struct pdf_page {
	double width, height, margin; /* inches */
	double scale;
	bool landscape, background;
	const char *pages; /* "1-3, 5"; NULL: all */
};

/* Prints the page and hands the file on, piece by piece; write() answers -1 to end it. */
typedef int pdf_write_fn(void *arg, const void *data, size_t len, struct err *err);
int capture_pdf(struct tab *tab, const struct pdf_page *page, pdf_write_fn *write, void *arg,
		const struct wait *wait, struct err *err);
