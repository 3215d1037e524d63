/* The page as it is printed. */
#include <string.h>
#include <strings.h>

#include "api/page_call.h"
#include "api/routes.h"
#include "base/err.h"
#include "browser/capture.h"
#include "net/call.h"

enum { PAGES_MAX = 1000 };

static const struct paper {
	const char *name;
	double width, height; /* inches */
} papers[] = { { "A4", 8.27, 11.7 },  { "A3", 11.7, 16.54 }, { "A5", 5.83, 8.27 },
	       { "Letter", 8.5, 11 }, { "Legal", 8.5, 14 },  { "Tabloid", 11, 17 } };
static const char *const paper_names[] = { "A4", "A3", "A5", "Letter", "Legal", "Tabloid", NULL };

struct page_pdf {
	const char *paper, *pages;
	bool landscape, background;
	double scale, margin;
};
static const struct field pdf_fields[] = {
	ENUM(page_pdf, paper, QUERY, "Size of a sheet.", .choices = paper_names, .def = "A4"),
	BOOL(page_pdf, landscape, QUERY, "Sheets on their side.", .def = "false"),
	BOOL(page_pdf, background, QUERY, "With the page's background colours and pictures.",
	     .def = "true"),
	NUM(page_pdf, scale, QUERY | MIN | MAX, "Of the page on the sheet.", .def = "1", .min = 0.1,
	    .max = 2),
	NUM(page_pdf, margin, QUERY | MIN | MAX, "On each side, in inches.", .def = "0.4", .min = 0,
	    .max = 2),
	STR(page_pdf, pages, QUERY, "Which sheets, such as \"1-3, 5\"; all when absent.",
	    .max_len = PAGES_MAX),
};
static const struct schema pdf_schema = SCHEMA(page_pdf, "PagePdfQuery", pdf_fields);

static const struct paper *find_paper(const char *name)
{
	size_t i = 0;
	while (i + 1 < COUNT(papers) && strcmp(papers[i].name, name) != 0)
		i++;
	return &papers[i];
}

static int send_piece(void *arg, const void *data, size_t len, struct err *err)
{
	struct call *call = arg;
	const struct answer answer = { 200, "application/pdf", -1,
				       .headers = { { "Content-Disposition",
						      "inline; filename=\"page.pdf\"" },
						    { "Cache-Control", "no-store" } },
				       .header_count = 2 };
	if (!call->sink->begun && call->sink->begin(call->sink, &answer, err) < 0)
		return -1;
	return call->sink->write(call->sink, data, len, err);
}

static int print_page(struct call *call, const void *in, struct err *err)
{
	const struct page_pdf *request = in;
	const struct paper *paper = find_paper(request->paper);
	const struct pdf_page sheet = { .width = paper->width,
					.height = paper->height,
					.margin = request->margin,
					.scale = request->scale,
					.landscape = request->landscape,
					.background = request->background,
					.pages = request->pages };
	struct page_call page;
	if (page_begin(call, INT_ABSENT, &page, err) < 0)
		return -1;
	return capture_pdf(page.tab, &sheet, send_piece, call, &page.wait, err);
}

static const struct route routes[] = {
	{ "GET", "/v1/browser/page/pdf", print_page, &pdf_schema, NULL, "Print the page to a PDF",
	  "The page in the active tab, laid out as its style for print has it.", .flags = BARE,
	  .type = "application/pdf" },
};
const struct route_group browser_page_pdf_group = { "browser", "The page on paper.", routes,
						    COUNT(routes) };
